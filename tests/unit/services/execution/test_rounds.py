"""The round review: what the lead of the team finds once all parts of an issue are done, and what follows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agent_requests import answered, begun
from irontree.domain.agents import Member
from irontree.domain.state import Phase
from irontree.domain.timestamps import utc_text
from irontree.errors import NotEligible
from irontree.ports import AgentResult, AgentTask
from irontree.services.answers.answers import Answer
from irontree.services.answers.approve import approve
from irontree.services.execution.rounds import aggregate_reviewed
from irontree.services.proposals.sources import propose
from irontree.services.work.standing import due_requests, failed_requests, requests
from tests.support.issues import edit, say, write
from tests.support.watching import Killed, Watched, dying_at
from tests.support.world import Scene, does, prepared

WISH = "A friendlier program.\n"
PARTS = "# Friendly\n\nParent: #1\n\n## Greeting\n\n- [ ] it is there `$ has greet.txt`\n"
ROOT = "friendlier"
FILE = ".irontree-round.json"
CLAIM = {"title": "Farewell", "criteria": ["it is there `$ has bye.txt`"]}


def finds(verdict: str, **said: object):
    answer = {"goal": "They fit.", "coverage": "All of it.", "verdict": verdict, **said}

    def step(task: AgentTask) -> None:
        (task.workspace / FILE).write_text(json.dumps(answer))

    return step


def with_a_lead(scene: Scene, *answers) -> Scene:
    lead = Member(name="chief", command=("chief",), role="reviewer", kinds=("docs",), lead=True)
    scene.policy = scene.policy.model_copy(update={"team": (lead,)})
    scene.reviewers = {"chief": ScriptedAgent(*answers)}
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(bye_txt="bye"))
    write(scene, "Friendlier", WISH)
    return scene


def asked(scene: Scene) -> int:
    return len(scene.reviewers["chief"].tasks)


def test_what_is_covered_is_done_and_the_lead_says_so_once(scene: Scene):
    with_a_lead(scene, finds("covered"))
    scene.drive(scene.start(PARTS))
    assert scene.state(ROOT).done
    aggregated = next(one for one in scene.records(ROOT) if one.event.event == "checkup_aggregate_recorded")
    assert aggregated.told.by == "chief"
    assert [body.splitlines()[0] for body in scene.comments(ROOT) if body.startswith("[chief]")] == [
        "[chief] They fit."
    ]
    assert asked(scene) == 1


def test_the_lead_is_told_the_goal_the_parts_and_what_was_observed(scene: Scene):
    with_a_lead(scene, finds("covered"))
    loop = scene.start(PARTS)
    say(scene, 2, "\N{WARNING SIGN}\ufe0f [observation] the tests are slow", author="mallory")
    say(scene, 2, "no observation", author="mallory")
    say(scene, 2, "Hello\n\n\N{WARNING SIGN}\ufe0f [observation] no beginning", author="mallory")
    scene.drive(loop)
    prompt = scene.reviewers["chief"].tasks[0].prompt
    assert "> A friendlier program." in prompt
    assert "- #2 Greeting (commit " in prompt
    assert "An observation by mallory:" in prompt
    assert "no observation" not in prompt
    assert "no beginning" not in prompt


@pytest.mark.parametrize(
    ("verdict", "said", "check", "reason"),
    [
        ("unclear", {"next": "Which greeting?"}, "goal-unclear", "chief finds the goal unclear: Which greeting?"),
        ("next_round", {"claims": [CLAIM]}, "next-round", "chief finds more to do: “Farewell”"),
    ],
)
def test_what_is_not_covered_asks_a_person_who_may_go_on_without_the_lead(scene, verdict, said, check, reason):
    with_a_lead(scene, finds(verdict, **said))
    loop = scene.start(PARTS)
    scene.drive(loop)
    assert (scene.state(ROOT).blocking_check, scene.last(ROOT).told.reason) == (check, reason)
    scene.drive(loop, prepared(Answer("go-on", "ada")))
    assert scene.state(ROOT).done
    aggregated = next(one for one in scene.records(ROOT) if one.event.event == "checkup_aggregate_recorded")
    assert aggregated.told.by == "ada"
    assert asked(scene) == 1


def test_an_edited_goal_that_was_unclear_is_looked_at_again(scene: Scene):
    with_a_lead(scene, finds("unclear", next="Which greeting?"), finds("covered"))
    scene.drive(scene.start(PARTS))
    assert "edit #1, approve that with `irontree task SPEC.md`, and go on" in scene.last(ROOT).told.remedy
    edit(scene, 1, body="Says hello.\n")
    scene.drive(scene.start(PARTS), prepared(Answer("go-on", "ada")))
    assert scene.state(ROOT).done
    assert asked(scene) == 2


def test_other_parts_in_the_same_number_are_looked_at_again(scene: Scene):
    with_a_lead(scene, finds("unclear", next="Which?"), finds("covered"))
    scene.drive(scene.start(PARTS))
    other = PARTS.replace("Greeting", "Farewell").replace("greet.txt", "bye.txt")
    scene.drive(scene.start(other), prepared(Answer("go-on", "ada")))
    assert scene.state(ROOT).done
    assert asked(scene) == 2


def test_what_the_lead_proposes_begins_only_once_it_is_approved_and_is_looked_at_again(scene: Scene):
    with_a_lead(scene, finds("next_round", claims=[CLAIM]), finds("covered"))
    loop = scene.start(PARTS)
    scene.drive(loop)
    assert "add them to SPEC.md" in scene.last(ROOT).told.remedy
    assert "farewell" not in scene.world.states
    loop = scene.start(f"{PARTS}\n## Farewell\n\n- [ ] it is there `$ has bye.txt`\n")
    scene.drive(loop, prepared(Answer("go-on", "ada")))
    assert scene.state("farewell").done
    assert scene.state(ROOT).done
    assert asked(scene) == 2


def test_a_document_that_members_wrote_grows_by_what_the_lead_proposes(scene: Scene):
    with_a_lead(scene, finds("next_round", claims=[CLAIM]))
    drafts = scene.root / scene.agent_requests.draft_path(1)
    drafts.parent.mkdir(parents=True)
    drafts.write_text(PARTS)
    proposal = propose(scene.app, drafts)
    scene.drive(approve(scene.app, proposal, proposal.name, "ada"))
    assert "`irontree task '#1'`" in scene.last(ROOT).told.remedy
    draft = scene.agent_requests.draft(1)
    assert draft.startswith(PARTS.rstrip())
    assert "## Farewell\n\nType: feature\n\n- [ ] it is there `$ has bye.txt`" in draft


def test_after_the_rounds_that_are_allowed_a_person_decides(scene: Scene):
    with_a_lead(scene, finds("next_round", claims=[CLAIM]), finds("next_round", claims=[{**CLAIM, "title": "Third"}]))
    scene.preferences = replace(scene.preferences, rounds=2)
    scene.drive(scene.start(PARTS))
    assert scene.state(ROOT).blocking_check == "next-round"
    loop = scene.start(f"{PARTS}\n## Farewell\n\n- [ ] it is there `$ has bye.txt`\n")
    scene.drive(loop, prepared(Answer("go-on", "ada")))
    assert scene.state(ROOT).blocking_check == "rounds-used"
    [*_, last] = scene.log.read(scene.state(ROOT).issue_number).records
    assert "and 2 rounds were made" in repr(last)


def nonsense(task: AgentTask) -> None:
    (task.workspace / FILE).write_text('{"verdict": "next_round", "goal": "x", "coverage": "y"}')


def test_an_answer_that_cannot_be_used_is_asked_for_three_times_and_then_a_person_says_when(scene: Scene):
    with_a_lead(scene, nonsense, nonsense, nonsense, finds("covered"))
    loop = scene.start(PARTS)
    scene.drive(loop)
    assert scene.state(ROOT).blocking_check == "no-round-review"
    assert "a next round needs at least one part" in scene.last(ROOT).told.reason
    assert failed_requests(scene.app) == ()  # its question stands at the issue
    scene.drive(loop, prepared(Answer("go-on", "ada")))
    assert scene.state(ROOT).done
    assert asked(scene) == 4


def limited_until(moment: datetime):
    return lambda _: AgentResult("exited", 1, 2.0, "", failure="rate_limited", retry_at=moment)


def test_a_lead_whose_service_has_a_limit_is_asked_again_by_a_timer(scene: Scene):
    later = scene.clock.now() + timedelta(hours=2)
    with_a_lead(scene)
    scene.reviewers = {"chief": ScriptedAgent(limited_until(later), finds("covered"))}
    loop = scene.start(PARTS)
    scene.drive(loop)
    assert (scene.state(ROOT).blocking_check, scene.last(ROOT).told.not_before) == ("rate-limited", utc_text(later))
    scene.drive(loop, prepared(Answer("go-on", "timer")))
    assert scene.state(ROOT).done
    assert asked(scene) == 2


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method", "turn"),
    [*(("agent_requests", "save", turn) for turn in (2, 3)), ("forge_seen", "post_comment", 2), ("log", "append", 5)],
)
def test_killed_anywhere_after_the_answer_nobody_is_asked_again(scene: Scene, port, method, turn, side):
    with_a_lead(scene, *[finds("covered")] * 2)
    loop = scene.start(PARTS)
    real = getattr(scene, port)
    setattr(scene, port, Watched(real, [method], dying_at(side, turn)))
    with pytest.raises(Killed):
        scene.drive(loop)
    setattr(scene, port, real)
    scene.drive(loop)
    assert scene.state(ROOT).done
    stored_first = (port, method, turn, side) == ("agent_requests", "save", 2, "before")
    assert asked(scene) == (2 if stored_first else 1)
    assert len([body for body in scene.comments(ROOT) if body.startswith("[chief]")]) == 1


def test_the_flow_of_requests_leaves_it_to_the_loop(scene: Scene):
    with_a_lead(scene, finds("covered"))
    scene.drive(scene.start(PARTS))
    (stored,) = requests(scene.app)
    open_again = answered(begun(stored.model_copy(update={"state": "pending", "answer": None})), stored.answer)
    scene.agent_requests.save(open_again)
    assert due_requests(scene.app) == ()


def test_without_a_lead_and_for_a_documents_own_root_nobody_is_asked(scene: Scene):
    with_a_lead(scene)
    scene.drive(scene.start("# Toy\n\n## All\n\n### Greeting\n\n- [ ] it is there `$ has greet.txt`\n"))
    assert scene.state("all").phase is Phase.DONE
    assert asked(scene) == 0


def test_the_step_is_refused_while_a_part_is_left(scene: Scene):
    with_a_lead(scene)
    scene.start(PARTS)
    with pytest.raises(NotEligible, match="greeting not done"):
        aggregate_reviewed(scene.app, 1)
