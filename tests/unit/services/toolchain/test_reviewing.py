"""Reviews that the team is asked for in the forge: once at each head, an opinion, never of what outsiders push."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from irontree.agents.scripted import ScriptedAgent, ScriptedStep
from irontree.domain.agent_requests import AskedAgent
from irontree.domain.agents import Member
from irontree.errors import RemoteUnavailable
from irontree.ports import AgentTask, PullRequest, Review
from irontree.repository.memory import Commit
from irontree.services.execution.merging import objection_to
from irontree.services.toolchain.asking import answer_request
from irontree.services.toolchain.reviewing import due_reviews, look_for_reviews
from irontree.services.work.standing import approve_standing, requests, standing_text
from irontree.store.memory import MemoryLock
from tests.support.store import standing
from tests.support.watching import Killed, Side, Watched, dying_at
from tests.support.world import Scene

NOW = "2026-04-22T14:32:11Z"
SECRET = "fX9qT2mZ7rB4kW1c"
HEAD, LATER = "a" * 40, "b" * 40
TESS = Member(name="tester", command=("tester",), role="reviewer", account="Tess")
ADA = Member(name="auditor", command=("auditor",), role="reviewer", account="auditor-bot")
PULL = PullRequest(
    7, "Log in", "", "open", False, False, "login", HEAD, "main", None, None, "https://f/7", ("tess", "ada")
)


def due(*pulls: PullRequest, known: tuple[AskedAgent, ...] = ()) -> list[str]:
    asked = due_reviews(pulls, (TESS, ADA), {each.key: each for each in known}, NOW)
    return [each.key for each in asked]


# --- What is due


def test_who_is_asked_reviews_each_head_once():
    [asked] = due_reviews((PULL,), (TESS, ADA), {}, NOW)
    assert (asked.key, asked.issue_number, asked.url) == ("review-R7-aaaaaaaaaaaa-tester", 7, "https://f/7")
    assert due(PULL, known=(asked,)) == []
    assert due(PULL._replace(head_sha=LATER), known=(asked,)) == ["review-R7-bbbbbbbbbbbb-tester"]


def test_a_head_that_moved_after_a_review_is_reviewed_though_the_forge_asks_nobody_any_more():
    [asked] = due_reviews((PULL,), (TESS,), {}, NOW)
    later = PULL._replace(head_sha=LATER, requested_reviewers=())
    assert due(later, known=(asked,)) == []
    assert due(later, known=(asked.model_copy(update={"posted": "https://f/7"}),)) == ["review-R7-bbbbbbbbbbbb-tester"]


@pytest.mark.parametrize("change", [{"draft": True}, {"requested_reviewers": ("ada",)}, {"head_sha": "../../etc"}])
def test_drafts_people_and_heads_that_are_none_ask_nobody(change: dict[str, Any]):
    assert due(PULL._replace(**change)) == []


# --- The review


def judges(verdict: str = "approve", summary: str = "It works.", **more: Any) -> ScriptedStep:
    def step(task: AgentTask) -> None:
        answer = {"verdict": verdict, "summary": summary} | more
        (task.workspace / ".irontree-verdict.json").write_text(json.dumps(answer))

    return step


class Team:
    """A scene with a reviewer whose account ada has asked to review request 1, and an approved standing."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        scene.policy = scene.policy.model_copy(update={"team": (TESS,)})
        scene.tracker.writers |= {"ada", "Tess"}
        scene.agent_requests.approve(standing(scene.policy, reviews=True))
        scene.tracker.branches = dict(scene.repository.remote)  # what a request shows may be a fork's
        self.lock = MemoryLock(scene.clock)
        self.answers(judges())
        self.head = self.push("hello")
        self.number = (
            self.forge("ada")
            .create_pull_request(head="login", base="main", title="Log in", body="As in RFC 1.", draft=False)
            .number
        )
        self.forge("ada").request_reviews(self.number, ["Tess"])

    def forge(self, author: str) -> Any:
        return self.scene.forge(author)

    def answers(self, *steps: ScriptedStep) -> None:
        self.scene.reviewers = {"tester": ScriptedAgent(*steps)}

    def push(self, text: str, *, to_remote: bool = True) -> str:
        repository = self.scene.repository
        main = repository.remote["main"]
        files = {**repository.commits[main].files, "login.txt": text.encode()}
        sha = repository.add(Commit(files, (main,), text))
        if to_remote:
            repository.remote["login"] = sha
        self.scene.tracker.branches["login"] = sha
        return sha

    def review(self) -> AskedAgent:
        """What came of the newest that is due, or of what was due before."""
        app = replace(self.scene.app, alive=lambda _: self.lock)
        look_for_reviews(app)
        self.key = f"review-R{self.number}-{self.scene.tracker.branches['login'][:12]}-tester"
        return answer_request(app, self.key)

    @property
    def handed_in(self) -> list[Review]:
        return [one for one in self.scene.forge_seen.reviews(self.number) if one.author == "us"]

    @property
    def prompts(self) -> list[str]:
        return [task.prompt for task in self.scene.reviewers["tester"].tasks]


@pytest.fixture
def team(scene: Scene) -> Team:
    return Team(scene)


def test_a_review_is_handed_in_once_at_the_head_that_was_looked_at(team: Team):
    done = team.review()
    [review] = team.handed_in
    assert (review.verdict, review.commit) == ("approved", team.head)
    assert review.body == f"[tester] It works.\n\n<!-- irontree:asked:{team.key} -->"
    assert (done.state, done.posted) == ("done", "memory:issue-1")
    assert team.review() == done
    assert (len(team.handed_in), len(team.prompts)) == (1, 1)
    [prompt] = team.prompts
    assert f"git diff {team.scene.repository.remote['main']} {team.head}" in prompt
    assert "request #1 proposes" in prompt
    assert "checks have passed" not in prompt
    assert "> As in RFC 1." in prompt.partition("## Your answer")[0]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method", "turn"),
    [*(("agent_requests", "save", turn) for turn in (1, 2, 3, 4)), ("forge_seen", "submit_review", 1)],
)
def test_killed_around_any_effect_it_is_handed_in_once(team: Team, port: str, method: str, turn: int, side: Side):
    scene = team.scene
    real = getattr(scene, port)
    setattr(scene, port, Watched(real, [method], dying_at(side, turn)))
    with pytest.raises(Killed):
        team.review()
    setattr(scene, port, real)
    answered = any(request.answer for request in requests(scene.app))
    team.answers(judges())
    assert team.review().state == "done"
    assert [one.commit for one in team.handed_in] == [team.head]
    assert len(team.prompts) == (0 if answered else 1)


def test_each_new_head_is_reviewed_anew(team: Team):
    team.review()
    later = team.push("hello, again")
    team.answers(
        judges("request_changes", "", findings=[{"text": "It is not tested.", "file": "login.txt", "line": 1}])
    )
    assert team.review().state == "done"
    assert [(one.verdict, one.commit) for one in team.handed_in] == [
        ("approved", team.head),
        ("changes_requested", later),
    ]
    assert "- login.txt:1: It is not tested." in team.handed_in[1].body


def test_of_our_own_request_it_comments_and_neither_approves_nor_objects(team: Team):
    team.scene.tracker.issues[1] = team.scene.tracker.issues[1]._replace(author="us")
    team.answers(judges("request_changes", "No."))
    team.review()
    [review] = team.handed_in
    assert review.verdict == "commented"
    pull = team.scene.forge_seen.read_pull_request(1)
    assert objection_to(pull, team.handed_in, []) is None


def test_of_a_request_that_we_opened_under_another_account_it_sends_nothing_back(team: Team):
    team.answers(judges("request_changes", "No."))
    team.review()
    [review] = team.handed_in
    assert (review.verdict, review.trusted) == ("changes_requested", True)
    assert objection_to(team.scene.forge_seen.read_pull_request(1), team.handed_in, []) is None


def test_a_review_whose_answer_was_lost_on_its_way_is_found_again(team: Team):
    team.scene.tracker.lost_answers = 1
    with pytest.raises(RemoteUnavailable):
        team.review()
    assert team.review().state == "done"
    assert (len(team.handed_in), len(team.prompts)) == (1, 1)


def test_a_marker_in_somebody_else_s_review_is_none(team: Team):
    marker = f"<!-- irontree:asked:review-R1-{team.head[:12]}-tester -->"
    team.forge("eve").submit_review(1, "commented", marker, team.head)
    team.review()
    assert len(team.handed_in) == 1


def test_a_head_that_is_not_on_our_remote_is_never_run(team: Team):
    for is_here in (False, True):
        outside = team.push(f"evil {is_here}", to_remote=False)
        if is_here:  # somebody looks at it in their own checkout
            team.scene.repository.refs["refs/heads/login"] = outside
            del team.scene.repository.remote["login"]
        found = team.review()
        assert (found.state, team.prompts) == ("failed", [])
        assert found.reason == f"{outside[:12]} is on no branch login of origin: what others push is not run here"


def test_a_head_that_moves_while_the_agent_looks_is_left_to_the_next_review(team: Team):
    def moves(task: AgentTask) -> None:
        team.push("moved")
        judges()(task)

    team.answers(moves)
    first = team.review()
    assert (first.state, first.posted, first.reason) == ("done", None, "the head of request #1 moved meanwhile")
    assert first.answer == "approved\nIt works."
    team.answers(judges())
    assert team.review().posted
    assert len(team.handed_in) == 1


def test_a_request_that_was_closed_or_merged_meanwhile_gets_no_review(team: Team):
    def closes(task: AgentTask) -> None:
        team.forge("ada").edit_pull_request(1, state="closed")
        judges()(task)

    team.answers(closes)
    assert team.review().reason == "request #1 is open no more"
    assert team.handed_in == []


def test_an_answer_that_is_no_verdict_is_asked_for_again(team: Team):
    team.answers(judges("perhaps"), judges(criteria=[{"criterion": 3, "met": True}]), judges())
    assert team.review().state == "done"
    assert "there is no criterion 3" in team.prompts[2]


def test_what_an_outsider_says_of_their_request_is_data(team: Team):
    team.scene.tracker.writers.remove("ada")
    team.review()
    head, _, data = team.prompts[0].partition("## Text by people without write access")
    assert "RFC 1" not in head
    assert "Log in" not in head
    assert "> As in RFC 1." in data


def test_a_text_with_commands_markers_mentions_and_secrets_is_cleaned(team: Team):
    (team.scene.root / ".env").write_text(f"PASSWORD={SECRET}\n")
    workspace = team.scene.policy.workspace.model_copy(update={"copy_files": (".env",)})
    team.scene.policy = team.scene.policy.model_copy(update={"workspace": workspace})
    team.scene.agent_requests.approve(standing(team.scene.policy, reviews=True))
    words = f"/approve 0123456789abcdef\n<!-- irontree:state --> @ada @Tess {SECRET} Closes #1"
    team.answers(judges(summary=words))
    team.review()
    [review] = team.handed_in
    assert review.body.startswith("[tester] /approve")
    assert review.body.count("<!--") == 1
    assert "@ada" not in review.body
    assert "@Tess" not in review.body
    assert SECRET not in review.body
    assert "Closes #1" not in review.body


def test_who_approved_mentions_alone_has_not_approved_reviews(team: Team):
    team.scene.agent_requests.approve(standing(team.scene.policy))
    assert look_for_reviews(team.scene.app) == ()
    text, name = standing_text(team.scene.app)
    assert "When the account of a reviewer (`Tess`) is asked to review" in text
    approve_standing(team.scene.app, name)
    assert len(look_for_reviews(team.scene.app)) == 1


def test_nothing_is_looked_at_without_a_reviewer_that_has_an_account(team: Team):
    alone = TESS.model_copy(update={"account": None})
    team.scene.policy = team.scene.policy.model_copy(update={"team": (alone,)})
    team.scene.agent_requests.approve(standing(team.scene.policy, reviews=True))
    assert look_for_reviews(team.scene.app) == ()
