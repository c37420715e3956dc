"""`next_step` and `perform`: what one issue needs, in every phase (R3, R11)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.domain.decide import Finalize, Halt, Recover, Run, Verify
from irontree.errors import Busy, Cancelled, GitFailed, NotEligible
from irontree.ports import Blocker, EffectLedger
from irontree.repository.memory import MemoryRepository, MemoryWorkspace
from irontree.services.execution.steps import Idle, next_step, perform, stop_at
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.questions.questions import Question, question_of_loop
from irontree.services.record import state_of
from tests.support.watching import Killed
from tests.support.world import (
    CLOSE,
    GREETING,
    MANUAL_TASK,
    ONE,
    ONE_TASK,
    PARTS,
    SPEC,
    TWO,
    BusyFor,
    accepts,
    does,
    ends,
    nobody,
    prepared,
)


def dies(_):
    raise Killed


def asks(found) -> str | None:
    return found.rule.reason if isinstance(found, Question) else None


def test_a_ready_issue_runs_a_committed_one_is_verified_a_verified_one_finalized(scene):
    scene.publish(ONE_TASK)
    seen = []
    while not isinstance(step := next_step(scene.app, 1), Idle):
        seen.append(step)
        perform(scene.app, step)
    assert seen == [Run(GREETING), Verify(GREETING), Finalize(GREETING)]
    assert step == Idle("done", done=True)


def test_a_failed_one_runs_again(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))
    assert next_step(scene.app, 1) == Run(GREETING)


def test_a_cut_off_one_is_recovered(scene):
    scene.agent = ScriptedAgent(dies)
    scene.publish(ONE_TASK)
    with pytest.raises(Killed):
        perform(scene.app, Run(GREETING))
    assert next_step(scene.app, 1) == Recover(GREETING)


def test_a_cut_off_one_is_recovered_even_without_any_budget_left(scene):
    """Otherwise loop and issue would wait for each other for ever."""
    scene.preferences = Preferences(loop_budget=1)
    scene.agent = ScriptedAgent(dies)
    loop = scene.start(ONE_TASK)
    with pytest.raises(Killed):
        perform(scene.app, Run(GREETING), loop.id)
    assert next_decision(scene.app, loop.id) == Recover(GREETING)
    assert next_step(scene.app, 1, loop.id) == Recover(GREETING)
    perform(scene.app, Recover(GREETING), loop.id)
    assert next_step(scene.app, 1, loop.id) == Idle("the loop has used its transitions")


def test_a_pending_one_asks(scene):
    scene.publish(MANUAL_TASK)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))
    assert asks(next_step(scene.app, 1)) == "pending_acceptance"


def test_a_terminal_one_asks(scene):
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))
    assert asks(next_step(scene.app, 1)) == "fail_terminal"


def test_a_blocked_one_asks_with_what_is_in_the_way(scene):
    scene.agent = ScriptedAgent(ends("not_started", None))
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    found = next_step(scene.app, 1)
    assert (asks(found), found.detail) == ("blocked", "agent-not-started")


def test_a_changed_one_asks_for_approval(scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("says", "cries"))
    perform(scene.app, Run(GREETING))
    assert asks(next_step(scene.app, 1)) == "reapproval_required"


def test_a_damaged_log_asks(scene):
    scene.publish(ONE_TASK)
    scene.log.files(1).files["0002-run-started.yml"] = b"torn"
    found = next_step(scene.app, 1)
    assert asks(found) == "blocked"
    assert "sequence 2" in found.detail


def test_an_issue_that_waits_says_for_what(scene):
    scene.publish(SPEC)
    assert next_step(scene.app, scene.number(ONE)) == Idle(f"waits for {GREETING}")
    assert next_step(scene.app, scene.number(PARTS)) == Idle(f"waits for {ONE}, {TWO}")
    assert next_step(scene.app, scene.number(CLOSE)) == Idle(f"waits for {ONE}, {TWO}")


def test_a_parent_is_aggregated_and_finalized(scene):
    loop = scene.start()
    scene.drive(loop, prepared(accepts()))
    assert next_step(scene.app, scene.number(PARTS)) == Idle("done", done=True)
    assert [t.skill for t in loops.read_loop(scene.app, loop.id).entity.transitions if t.task_key == PARTS] == [
        *("checkup", "checkup"),
    ]


def test_looking_writes_nothing(scene):
    scene.publish(SPEC)
    before = {key: scene.events(key) for key in (GREETING, ONE, PARTS)}
    for number in range(1, 6):
        next_step(scene.app, number)
    assert {key: scene.events(key) for key in before} == before


# --- in a loop -----------------------------------------------------------------------------------------


def test_a_skipped_issue_asks_nothing_any_more(scene):
    loop = scene.start()
    scene.drive(loop)
    loops.skip(scene.app, loop.id, TWO, "ada")
    idle = next_step(scene.app, scene.number(TWO), loop.id)
    assert idle.reason == "skipped in this loop"
    assert asks(idle.unasked) == "pending_acceptance", "an answer that was given already counts"


def test_an_issue_of_a_stopped_loop_is_left_alone(scene):
    loop = scene.start()
    loops.cancel(scene.app, loop.id, "ada")
    assert next_step(scene.app, 1, loop.id) == Idle("its loop is cancelled")


def test_an_issue_of_a_halted_loop_waits(scene):
    loop = scene.start()
    scene.drive(loop, nobody)
    assert next_step(scene.app, scene.number(CLOSE), loop.id) == Idle("its loop is halted")


def test_an_issue_whose_turn_it_is_not_waits_for_the_one_that_its_loop_has_chosen(scene):
    """Its run may have been woken beside the loop, by an answer or by a person."""
    loop = scene.start()
    while (chosen := next_decision(scene.app, loop.id)).task_key == GREETING:
        perform(scene.app, chosen, loop.id)
    assert chosen == Run(ONE)
    assert next_step(scene.app, scene.number(ONE), loop.id) == Run(ONE)
    assert next_step(scene.app, scene.number(TWO)) == Run(TWO), "nothing holds it back by itself"
    first = f"#{scene.number(ONE)} Part one"
    assert next_step(scene.app, scene.number(TWO), loop.id) == Idle(f"{first} comes first in its loop")


def test_an_issue_takes_no_step_while_its_loop_is_about_to_halt_at_another(scene):
    loop = scene.start()
    while next_decision(scene.app, loop.id).task_key == GREETING:
        perform(scene.app, next_decision(scene.app, loop.id), loop.id)
    stop_at(scene.app, scene.number(ONE), "somebody stopped it")
    assert next_step(scene.app, scene.number(TWO), loop.id) == Idle("its loop is about to halt")


def test_a_question_of_the_loop_has_a_key_from_its_log(scene):
    scene.preferences = Preferences(loop_budget=1)
    loop = scene.start()
    assert question_of_loop(scene.app, loop.id) is None
    scene.drive(loop, nobody)
    found = question_of_loop(scene.app, loop.id)
    assert found.key == f"loop-{loop.id}-2-loop-budget-exhausted"


def test_a_loop_halted_at_an_issue_asks_nothing_itself(scene):
    loop = scene.start()
    scene.drive(loop, nobody)
    assert question_of_loop(scene.app, loop.id) is None


# --- performing ----------------------------------------------------------------------------------------


def test_a_single_step_never_takes_the_lease_of_a_loop(scene):
    scene.publish(ONE_TASK)
    held = []
    scene.agent = ScriptedAgent(lambda _: held.append(scene.lease.holder()))
    perform(scene.app, Run(GREETING))
    assert held == [None]


def test_of_two_drivers_one_is_told_who_is_busy(scene):
    scene.publish(ONE_TASK)
    with scene.driver.hold("issue-9, run"), pytest.raises(Busy, match="issue-9, run"):
        perform(scene.app, Run(GREETING))
    assert scene.events() == ["task_published"]


def test_who_is_ready_to_wait_for_another_driver_waits(scene):
    scene.publish(ONE_TASK)
    scene.driver = BusyFor(scene.clock, 1)
    assert perform(scene.app, Run(GREETING), wait_seconds=1).last_event == "run_completed"


def test_a_step_that_the_log_has_overtaken_is_refused(scene):
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    with pytest.raises(NotEligible):
        perform(scene.app, Run(GREETING))


@pytest.mark.parametrize("meanwhile", ["the loop is cancelled", "the task is skipped", "the loop halts"])
def test_a_step_decided_before_the_lock_was_free_is_not_taken_in_a_loop_that_wants_it_no_more(scene, meanwhile):
    """R3, R17: it is looked at again under the lock; no agent is called, and no transition is counted."""
    loop = scene.start(SPEC)
    step = next_step(scene.app, 1, loop.id)
    if meanwhile == "the loop is cancelled":
        loops.cancel(scene.app, loop.id, "ada")
    elif meanwhile == "the task is skipped":
        loops.skip(scene.app, loop.id, GREETING, "ada")
    else:
        loops.halt(scene.app, loop.id, Halt("protocol_gap"))
    with pytest.raises(NotEligible, match="was to run, and the log has moved on"):
        perform(scene.app, step, loop.id)
    assert (step, scene.events()) == (Run(GREETING), ["task_published"])
    assert scene.loops.read_entity(loop.id).budget_used == 0


def test_a_step_that_another_driver_has_taken_delivers_what_that_one_did_not_get_to(scene):
    loop = scene.start(MANUAL_TASK)
    for step in (Run(GREETING), Verify(GREETING)):
        perform(scene.app, step)
    scene.deliveries.save(1, EffectLedger())
    scene.tracker.comments.clear()
    with pytest.raises(NotEligible, match="accept"):
        perform(scene.app, Verify(GREETING), loop.id)
    assert len(scene.comments()) == 1


def test_a_task_without_an_issue_cannot_be_stepped(scene):
    with pytest.raises(NotEligible, match="has no issue yet"):
        perform(scene.app, Run(GREETING))


def test_a_stopped_step_frees_the_lock_and_can_be_taken_again(scene):
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    scene.cancel.stopped = True
    with pytest.raises(Cancelled):
        perform(scene.app, Verify(GREETING))
    scene.cancel.stopped = False
    assert perform(scene.app, Verify(GREETING)).last_event == "verify_passed"


def test_a_step_writes_the_brief_and_backs_up_the_log(scene):
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    brief = scene.projections.texts[scene.root / ".mino/briefs/issue-1.md"]
    assert scene.state().commit in brief


# --- what stands in the way of a step ------------------------------------------------------------------


class Refusing(MemoryRepository):
    """A repository that cannot even be looked at."""

    def preflight(self, *_: object, **__: object) -> tuple[Blocker, ...]:
        raise GitFailed("git cannot read the index", remedy="run git fsck")


class Lost(MemoryRepository):
    """A repository whose workspaces cannot be made."""

    def workspace(self, *_: object) -> MemoryWorkspace:
        raise GitFailed("no workspace")


def test_what_keeps_a_step_from_being_taken_is_a_question_with_its_reason(scene):
    scene.publish(ONE_TASK)
    scene.repository = Refusing(scene.root, scene.cache)
    assert perform(scene.app, Run(GREETING)).last_event == "checkup_preflight_blocked"
    found = next_step(scene.app, 1)
    assert (asks(found), found.detail) == ("blocked", "workspace-not-ready")
    assert (scene.last().meta["reason"], scene.last().meta["remedy"]) == ("git cannot read the index", "run git fsck")


def test_a_step_that_fails_while_a_person_stops_it_asks_nothing(scene):
    scene.publish(ONE_TASK)
    scene.repository = Refusing(scene.root, scene.cache)
    scene.cancel.stopped = True
    with pytest.raises(GitFailed):
        perform(scene.app, Run(GREETING))
    assert scene.events() == ["task_published"]


def test_an_attempt_that_cannot_be_recovered_now_stays_one_to_recover(scene):
    scene.agent = ScriptedAgent(dies)
    scene.publish(ONE_TASK)
    with pytest.raises(Killed):
        perform(scene.app, Run(GREETING))
    scene.repository = Lost(scene.root, scene.cache)
    with pytest.raises(GitFailed, match="no workspace"):
        perform(scene.app, Recover(GREETING))
    assert next_step(scene.app, 1) == Recover(GREETING)


def test_the_state_of_one_issue_is_what_the_whole_log_says_a_gap_at_its_end_included(scene):
    scene.publish(ONE_TASK)
    assert state_of(scene.app, 1) == scene.state()
    scene.log.files(1).files["0002-run-started.yml"] = b"torn"
    assert state_of(scene.app, 1) == scene.state()
    assert "sequence 2" in scene.state().problem
    assert state_of(scene.app, 2) is None


def test_a_step_that_comes_too_late_delivers_what_a_dead_driver_did_not_get_to(scene):
    scene.drive(scene.start(ONE_TASK))
    scene.app.deliveries.save(1, EffectLedger(4))
    scene.app.forge().edit_issue(1, state="open")
    with pytest.raises(NotEligible, match="is done already"):
        perform(scene.app, Finalize(GREETING))
    assert scene.app.forge().read_issue(1).state == "closed"
