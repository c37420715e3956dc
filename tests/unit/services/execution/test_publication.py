"""Publication onto a target that others move as well (R5, R12, R14)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.plan import Shell
from irontree.domain.state import Phase
from irontree.errors import Cancelled, PublicationRefused, RemoteUnavailable
from irontree.repository.memory import Commit
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.checkup import Decider, accept
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.views.history import say_issue_event
from tests.support.memory_project import push_from_elsewhere
from tests.support.watching import Killed, Watched, dying
from tests.support.world import MANUAL_TASK, ONE_TASK, Patience, Scene, does


@pytest.fixture
def committed(scene) -> Scene:
    return commit(scene)


def commit(scene: Scene, text: str = ONE_TASK, **files: str) -> Scene:
    scene.agent = ScriptedAgent(does(**(files or {"greet_txt": "hello"})))
    scene.publish(text)
    run(scene.app, 1)
    return scene


def moving(scene: Scene, *pushes: dict[str, bytes]) -> None:
    """Somebody publishes these, one before each of our attempts to."""
    left = list(pushes)
    scene.repository.before_push = lambda _: left and push_from_elsewhere(scene.repository, left.pop(0))


def with_checks(scene: Scene, *commands: str) -> Scene:
    checks = tuple(Shell(name=f"check {n}", run=command) for n, command in enumerate(commands))
    scene.policy = scene.policy.model_copy(update={"checks": checks})
    return scene


# --- merges --------------------------------------------------------------------------------------------


def test_a_moved_target_is_merged_checked_again_and_published(committed):
    moving(committed, {"other.txt": b"theirs"})
    state = verify(committed.app, 1)
    tip = committed.repository.remote["main"]
    assert state.last_event == "verify_passed"
    assert state.code_ref == state.anchor == tip
    assert committed.repository.commits[tip].parents[0] == state.commit, "run_completed keeps the task's own commit"
    assert committed.repository.commits[tip].files["other.txt"] == b"theirs"
    assert len(committed.checks.commands) == 2
    assert committed.results.load(1, tip).failed is None


@pytest.mark.parametrize(
    ("subject", "first"),
    [
        (None, ["Merge main into #1"]),
        ("{title}", ["Merge main into “Greeting”", "For #1"]),
        ("{kind}: {title}", ["chore: merge main into “Greeting”", "For #1"]),
        ("{title} (#{number})", ["Merge main into “Greeting” (#1)"]),
    ],
)
def test_the_first_line_of_a_merge_has_the_style_of_the_repository(scene, subject, first):
    """A hook or a rule for commits looks at each commit of a push."""
    publish = scene.policy.publish.model_copy(update={"subject": subject})
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    moving(commit(scene), {"other.txt": b"theirs"})
    state = verify(scene.app, 1)
    *paragraphs, _ = scene.repository.commits[scene.repository.remote["main"]].message.rstrip().split("\n\n")
    assert paragraphs == first
    assert scene.repository.commits[state.code_ref].message.endswith(f"Irontree-Merge: {state.run_token}\n")


def test_a_target_that_was_rewritten_is_not_merged_back_and_the_work_is_done_again_on_top_of_it(committed):
    """What somebody took out of the history must not come back through us."""
    repository, gone = committed.repository, committed.state().base_sha
    rewritten = repository.add(Commit({"clean.txt": b"purged"}, (), "rewritten"))
    repository.remote["main"] = rewritten
    state = verify(committed.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "target-rewritten")
    assert repository.remote["main"] == rewritten
    answer_issue(committed.app, 1, Answer("go-on", "ada"))
    committed.agent = ScriptedAgent(does(greet_txt="hello"))
    run(committed.app, 1)
    verify(committed.app, 1)
    assert gone not in repository.history(repository.remote["main"])
    assert committed.state().phase is Phase.VERIFIED


def test_a_target_that_was_pushed_back_between_verification_and_publication_is_asked_about(committed):
    """It still is a part of our commit: nothing but the tip that was checked shows that something was taken back."""
    repository, anchor = committed.repository, committed.state().base_sha
    earlier = repository.add(Commit({"README.md": b"toy"}, (), "earlier"))
    repository.commits[anchor] = Commit(
        repository.commits[anchor].files, (earlier,), repository.commits[anchor].message
    )
    repository.before_push = lambda _: repository.remote.update(main=earlier)
    state = verify(committed.app, 1)
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "target-rewritten")
    assert repository.remote["main"] == earlier


def test_a_target_that_was_deleted_is_asked_about_and_taken_up_once_it_is_there_again(committed):
    repository, tip = committed.repository, committed.repository.remote["main"]
    del repository.remote["main"]
    state = verify(committed.app, 1)
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "target-gone")
    assert tip[:12] in committed.last().meta["remedy"]
    assert "main" not in repository.remote
    repository.remote["main"] = tip
    answer_issue(committed.app, 1, Answer("go-on", "ada"))
    assert verify(committed.app, 1).last_event == "verify_passed"


def test_every_commit_that_an_event_names_has_a_ref(committed):
    moving(committed, {"other.txt": b"theirs"})
    state = verify(committed.app, 1)
    assert {state.commit, state.anchor} <= set(committed.repository.refs.values())


def test_a_target_that_moves_twice_is_merged_twice(committed):
    moving(committed, {"a.txt": b"a"}, {"b.txt": b"b"})
    state = verify(committed.app, 1)
    assert {"a.txt", "b.txt", "greet.txt"} <= committed.repository.commits[state.code_ref].files.keys()


def test_after_three_rounds_it_is_tried_later(committed):
    moving(committed, *({f"{n}.txt": b"x"} for n in range(4)))
    state = verify(committed.app, 1)
    assert (state.last_event, state.phase) == ("verify_publication_failed", Phase.COMMITTED)
    assert "moved 3 times" in committed.last().meta["reason"]
    assert verify(committed.app, 1).last_event == "verify_passed"


def test_a_merge_that_was_published_before_a_crash_is_the_anchor(committed):
    """Nothing is merged, checked or pushed a second time."""
    moving(committed, {"other.txt": b"theirs"})
    committed.log = Watched(committed.log, ["append"], dying("before"))
    with pytest.raises(Killed):
        verify(committed.app, 1)
    tip, ran = committed.repository.remote["main"], len(committed.checks.commands)
    state = verify(committed.app, 1)
    assert (state.code_ref, state.anchor) == (tip, tip)
    assert len(committed.checks.commands) == ran
    assert committed.repository.remote["main"] == tip


def test_a_merge_that_was_not_published_before_a_crash_is_used_again(committed):
    moving(committed, {"other.txt": b"theirs"})
    committed.results = Watched(committed.results, ["save"], dying("after", times=1))
    with pytest.raises(Killed):
        verify(committed.app, 1)
    committed.results = Watched(committed.results, ["save"], dying("after", times=1))
    with pytest.raises(Killed):
        verify(committed.app, 1)
    merged = committed.repository.refs.copy()
    assert verify(committed.app, 1).last_event == "verify_passed"
    assert committed.repository.refs.keys() - merged.keys() == set()


# --- what a merge brings to light ----------------------------------------------------------------------


def test_a_failure_at_the_merge_is_retried_on_top_of_the_moved_target(committed):
    """The task's own check fails at the merge, and of course at the target without it too."""
    tip = []
    committed.repository.before_push = lambda _: (
        tip or tip.append(push_from_elsewhere(committed.repository, {"loud.txt": b"x"}))
    )
    committed.checks = ScriptedCheckRunner(lambda _, folder: 1 if (folder / "loud.txt").exists() else 0)
    state = verify(committed.app, 1)
    assert (state.last_event, state.attempt_count) == ("verify_failed_retryable", 1)
    assert state.base_sha == tip[0]
    state = run(committed.app, 1)
    assert committed.repository.commits[state.commit].parents == (tip[0],)
    assert "has greet.txt hello" in committed.agent.tasks[-1].prompt


def test_a_target_that_is_red_by_itself_is_not_the_tasks_fault(scene):
    commit(with_checks(scene, "has README.md toy"))
    moving(scene, {"README.md": b"broken"})
    state = verify(scene.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "target-broken")
    assert state.attempt_count == 1


def test_once_the_target_is_put_right_the_issue_goes_on(scene):
    commit(with_checks(scene, "has README.md toy"))
    moving(scene, {"README.md": b"broken"})
    verify(scene.app, 1)
    push_from_elsewhere(scene.repository, {"README.md": b"toy again"})
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert verify(scene.app, 1).last_event == "verify_passed"


def test_a_conflict_blocks_and_going_on_redoes_the_work_on_the_new_tip(committed):
    moving(committed, {"greet.txt": b"good day"})
    state = verify(committed.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "merge-conflict")
    tip = committed.repository.remote["main"]
    state = answer_issue(committed.app, 1, Answer("go-on", "ada"))
    assert (state.phase, state.commit) == (Phase.READY, None)
    state = run(committed.app, 1)
    assert (state.base_sha, committed.repository.commits[state.commit].parents) == (tip, (tip,))
    assert verify(committed.app, 1).last_event == "verify_passed"


def test_a_conflict_at_the_last_attempt_allows_one_more(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    commit(scene)
    moving(scene, {"greet.txt": b"good day"})
    verify(scene.app, 1)
    state = answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert (state.attempt_count, state.max_retry_count) == (1, 1)


# --- a remote that is not there, or says no (E) --------------------------------------------------------


def test_an_outage_is_waited_for_and_then_recorded_at_no_cost(committed):
    """TC-3.1"""
    committed.repository.failures += [RemoteUnavailable("no route")] * 3
    state = verify(committed.app, 1)
    assert committed.cancel.pauses == [1.0, 3.0]
    assert (state.last_event, state.attempt_count, state.phase) == ("verify_publication_failed", 1, Phase.COMMITTED)
    assert state.pass_fail_outcome is None


def test_afterwards_only_publication_is_left(committed):
    committed.repository.failures += [RemoteUnavailable("no route")] * 3
    verify(committed.app, 1)
    assert verify(committed.app, 1).last_event == "verify_passed"
    assert committed.checks.commands == ["has greet.txt hello"]


def test_a_short_outage_is_not_even_recorded(committed):
    committed.repository.failures += [RemoteUnavailable("no route")]
    assert verify(committed.app, 1).last_event == "verify_passed"


def test_three_outages_in_a_row_are_followed_by_a_question(committed):
    committed.repository.failures += [RemoteUnavailable("no route")] * 9
    for _ in range(3):
        verify(committed.app, 1)
    state = verify(committed.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "publication-refused")
    assert answer_issue(committed.app, 1, Answer("go-on", "ada")).phase is Phase.COMMITTED
    assert verify(committed.app, 1).last_event == "verify_passed"


def test_who_stops_while_the_remote_is_waited_for_records_nothing(committed):
    committed.repository.failures += [RemoteUnavailable("no route")]
    committed.cancel = Patience(stops_at_a_pause=True)
    with pytest.raises(Cancelled):
        verify(committed.app, 1)
    assert committed.events()[-1] == "run_completed"


@pytest.mark.parametrize("reason", ["protected-branch", "authentication"])
def test_what_repeating_cannot_cure_blocks_at_once(committed, reason):
    committed.repository.failures += [PublicationRefused("no", reason=reason, remedy="ask an admin")]
    state = verify(committed.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", reason)
    assert committed.last().meta["remedy"] == "ask an admin"
    assert committed.cancel.pauses == []


# --- acceptance ----------------------------------------------------------------------------------------


@pytest.fixture
def pending(scene) -> Scene:
    commit(scene, MANUAL_TASK)
    verify(scene.app, 1)
    return scene


def test_acceptance_publishes_the_merge_and_says_what_was_accepted(pending):
    anchor = pending.state().anchor
    moving(pending, {"other.txt": b"theirs"})
    state = accept(pending.app, 1, Decider("ada", "lovely"))
    assert state.code_ref == pending.repository.remote["main"] != anchor
    assert pending.last().meta["accepted_sha"] == anchor


def test_an_acceptance_that_ones_own_checkout_could_not_follow_says_so(pending):
    (pending.root / "greet.txt").write_text("mine, and in no commit")
    state = accept(pending.app, 1, Decider("ada"))
    assert state.last_event == "checkup_accept_recorded"
    assert pending.last().meta["warnings"] == ["your own main could not follow"]
    assert say_issue_event(pending.last()).endswith(", but your own main could not follow")


def test_an_outage_leaves_it_pending(pending):
    """TC-4.1"""
    pending.repository.failures += [RemoteUnavailable("no route")] * 3
    state = accept(pending.app, 1, Decider("ada"))
    assert (state.last_event, state.phase) == ("checkup_accept_publication_failed", Phase.PENDING)
    assert accept(pending.app, 1, Decider("ada")).last_event == "checkup_accept_recorded"


def test_a_refusal_leaves_it_pending_and_says_what_to_do(pending):
    pending.repository.failures += [PublicationRefused("protected", reason="protected-branch", remedy="ask an admin")]
    assert accept(pending.app, 1, Decider("ada")).phase is Phase.PENDING
    assert pending.last().meta["remedy"] == "ask an admin, then accept again"


def test_a_conflict_at_acceptance_blocks_for_only_new_work_can_cure_it(pending):
    moving(pending, {"greet.txt": b"good day"})
    state = accept(pending.app, 1, Decider("ada"))
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "merge-conflict")
    assert answer_issue(pending.app, 1, Answer("go-on", "ada")).phase is Phase.READY


def test_checks_that_fail_only_together_at_acceptance_send_the_work_back(pending):
    tip = []
    pending.repository.before_push = lambda _: tip.append(push_from_elsewhere(pending.repository, {"loud.txt": b"x"}))
    pending.checks = ScriptedCheckRunner(lambda _, folder: 1 if (folder / "loud.txt").exists() else 0)
    state = accept(pending.app, 1, Decider("ada"))
    assert (state.last_event, state.base_sha) == ("verify_failed_retryable", tip[0])


def test_a_target_that_is_red_by_itself_leaves_it_pending(scene):
    commit(with_checks(scene, "has README.md toy"), MANUAL_TASK)
    verify(scene.app, 1)
    moving(scene, {"README.md": b"broken"})
    state = accept(scene.app, 1, Decider("ada"))
    assert (state.last_event, state.phase) == ("checkup_accept_publication_failed", Phase.PENDING)
    assert "without this change too" in scene.last().meta["reason"]
