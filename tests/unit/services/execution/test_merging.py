"""A merge is the acceptance where one is waited for, and a question elsewhere (R5, R15)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.agents import Member
from irontree.domain.decide import Finalize, Verify
from irontree.errors import AnswerRefused
from irontree.ports import CommitCheck
from irontree.repository.memory import Commit
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.audit import AuditFinding
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.steps import perform
from irontree.services.work.preflight import block
from irontree.store.memory import MemoryPlanStore, MemoryResultStore
from tests.support.memory_project import push_from_elsewhere
from tests.support.requests import BRANCH, Refusing, look, merge, request, requesting_scene, work
from tests.support.world import GREETING, Scene, accepts, sends_back


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


@pytest.mark.parametrize("squash", [False, True])
def test_the_merge_is_the_acceptance_by_who_merged(scene: Scene, squash: bool):
    work(scene)
    merged = merge(scene, squash=squash)
    look(scene)
    accepted = scene.last()
    assert accepted.event.event == "checkup_accept_recorded"
    assert (accepted.event.code_ref, accepted.event.code_publication_state) == (merged, "published")
    assert accepted.meta["by"] == "grace"
    perform(scene.app, Finalize(GREETING))
    assert scene.state().done


def test_the_close_by_its_own_merge_is_no_close_from_outside(scene: Scene):
    work(scene)
    merge(scene)
    with scene.app.driver.hold("reconcile"):
        found = reconcile(scene.app)
    assert found.outside == ()
    assert scene.events()[-1] == "checkup_accept_recorded"
    with scene.app.driver.hold("reconcile"):
        assert reconcile(scene.app).outside == ()
    perform(scene.app, Finalize(GREETING))
    assert scene.state().done


def test_what_was_merged_beside_the_verified_commit_is_said(scene: Scene):
    work(scene)
    asked = request(scene)
    tip = push_from_elsewhere(scene.repository, {"extra.txt": b"by hand"}, BRANCH)
    assert tip != asked.head_sha
    merge(scene)
    look(scene)
    assert scene.last().meta["warnings"] == ["it was merged with commits that were not verified here"]


def test_a_merge_into_another_branch_accepts_nothing(scene: Scene):
    work(scene)
    before = scene.repository.remote["main"]
    merge(scene)
    scene.repository.remote["main"] = before
    look(scene)
    assert scene.state().blocking_check == "merged-elsewhere"


def with_an_agents_account(scene: Scene) -> None:
    coder = Member(name="coder", command=("coder",), role="reviewer", kinds=("docs",), account="Coder-Bot")
    scene.policy = scene.policy.model_copy(update={"team": (coder,)})


def test_the_merge_by_an_agents_account_accepts_nothing_and_asks_once(scene: Scene):
    with_an_agents_account(scene)
    work(scene)
    merge(scene, by="coder-bot")
    look(scene)
    assert (scene.state().blocking_check, scene.last().event.event) == ("merged-by-agent", "checkup_preflight_blocked")
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    look(scene)
    assert scene.state().is_proposed
    assert scene.events().count("checkup_preflight_blocked") == 1


def test_a_person_accepts_what_an_agent_merged(scene: Scene):
    with_an_agents_account(scene)
    work(scene)
    merged = merge(scene, by="coder-bot")
    look(scene)
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    answer_issue(scene.app, scene.number(), Answer("accept", "ada"))
    accepted = scene.last()
    assert (accepted.event.event, accepted.event.code_ref) == ("checkup_accept_recorded", merged)
    assert (accepted.meta["by"], accepted.meta["merged_by"]) == ("ada", "coder-bot")
    perform(scene.app, Finalize(GREETING))
    assert scene.state().done


def rewrite(scene: Scene, files: dict[str, bytes]) -> str:
    """Somebody forces the branch to a commit of his own on the target; that commit."""
    target = scene.repository.remote["main"]
    theirs = Commit({**scene.repository.commits[target].files, **files}, (target,), "rewritten")
    scene.repository.remote[BRANCH] = scene.repository.add(theirs)
    return scene.repository.remote[BRANCH]


def test_a_merge_without_the_verified_commit_accepts_nothing(scene: Scene):
    work(scene)
    rewrite(scene, {"other.txt": b"unrelated"})
    merge(scene)
    look(scene)
    assert scene.state().blocking_check == "merged-without-it"
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    work(scene)
    assert scene.events()[-1] == "verify_pending_acceptance"
    assert scene.repository.commits[request(scene).head_sha].parents == (scene.repository.remote["main"],)


def test_a_rewritten_branch_with_the_same_files_is_what_was_verified(scene: Scene):
    work(scene)
    rewrite(scene, {"greet.txt": b"hello"})
    merge(scene)
    look(scene)
    assert scene.events()[-1] == "checkup_accept_recorded"


def test_a_squash_of_more_than_was_verified_holds_it_though_the_branch_is_gone(scene: Scene):
    work(scene)
    push_from_elsewhere(scene.repository, {"extra.txt": b"by hand"}, BRANCH)
    merge(scene, squash=True)
    del scene.repository.remote[BRANCH]
    look(scene)
    assert scene.events()[-1] == "checkup_accept_recorded"


def test_accepting_without_the_merge_says_what_accepts_it(scene: Scene):
    work(scene)
    with pytest.raises(AnswerRefused, match="is not merged yet"):
        answer_issue(scene.app, scene.number(), accepts())
    merge(scene)
    answer_issue(scene.app, scene.number(), accepts())
    assert scene.events()[-1] == "checkup_accept_recorded"


def test_a_forge_that_does_not_answer_stops_nothing(scene: Scene):
    work(scene)
    scene.tracker.outage = "it does not answer"
    look(scene)
    assert scene.events()[-1] == "verify_pending_acceptance"
    assert any("could not be read" in line for line in scene.notes.lines)


def reconciled(scene: Scene) -> tuple[AuditFinding, ...]:
    with scene.app.driver.hold("reconcile"):
        return reconcile(scene.app).outside


def sent_back(scene: Scene) -> None:
    work(scene)
    answer_issue(scene.app, scene.number(), sends_back("longer"))


def failed_for_good(scene: Scene) -> None:
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    work(scene)
    scene.tracker.check(request(scene).head_sha, CommitCheck("lint", "failure", "flaky"))
    look(scene)


def stopped(scene: Scene) -> None:
    work(scene)
    with scene.app.driver.hold("stop"):
        block(scene.app, scene.state(), "cancelled", "stopped")


@pytest.mark.parametrize(
    ("held_up", "why"), [(sent_back, "was sent back"), (failed_for_good, "had failed"), (stopped, "was blocked")]
)
def test_a_merge_of_what_does_not_wait_for_one_is_asked_about(scene: Scene, held_up: Callable[[Scene], None], why: str):
    held_up(scene)
    merge(scene)
    look(scene)
    assert scene.state().blocking_check == "merged-meanwhile"
    assert scene.last().meta["reason"] == f"request #2 was merged by grace, though its work {why}"
    asked = scene.events()
    assert reconciled(scene) == ()
    assert scene.events() == asked
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    assert reconciled(scene) == ()
    perform(scene.app, Verify(GREETING))
    look(scene)
    assert scene.events()[-1] == "checkup_accept_recorded"
    assert len(scene.tracker.pulls) == 1


def test_whoever_goes_on_from_a_merge_in_another_way_is_not_asked_about_it_again(scene: Scene):
    sent_back(scene)
    merge(scene)
    look(scene)
    scene.checks = ScriptedCheckRunner(lambda *_: 1)
    scene.results = MemoryResultStore()
    answer_issue(scene.app, scene.number(), Answer("go-on", "ada"))
    perform(scene.app, Verify(GREETING))
    look(scene)
    assert scene.events()[-1] == "verify_failed_retryable"


def test_a_forge_that_hides_a_request_is_believed_nothing(scene: Scene):
    work(scene)
    scene.tracker.issues[1] = scene.tracker.issues[1]._replace(state="closed")
    scene.forge_seen = Refusing(scene.forge_seen, "read_pull_request")
    assert reconciled(scene) == ()
    assert scene.events()[-1] == "verify_pending_acceptance"


def test_a_request_of_a_task_whose_plan_is_gone_is_left_alone(scene: Scene):
    work(scene)
    merge(scene)
    scene.plans = MemoryPlanStore()
    look(scene)
    assert scene.events()[-1] == "verify_pending_acceptance"
