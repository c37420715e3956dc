"""`next_step` says what one issue needs now, `perform` does it. A flow is the only `while` around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from irontree.app import App
from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Step, Verify, decide, step_for
from irontree.domain.halt import halt_of
from irontree.domain.state import TaskState
from irontree.errors import ConfigRefused, EnvironmentRefused, IllegalTransition, NotEligible, RemoteFailed
from irontree.services.delivery.deliver import deliver
from irontree.services.execution import checkup, run, verify
from irontree.services.execution.merging import lift_draft
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.loops import loop
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import Funds, read_funds
from irontree.services.questions.brief import write_projections
from irontree.services.questions.questions import Question, question_about
from irontree.services.record.world import World, read_world
from irontree.services.views.overview import named, waits_for
from irontree.services.work.preflight import block, block_for


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing can be done on this issue now: it is done, cancelled, or waits for others or for its loop.

    `unasked` is what the issue itself waits for though its loop is over for it: nobody asks that here, but an answer
    that was given already counts.
    """

    reason: str
    done: bool = False
    unasked: Question | None = None


SKILL: Final = {Recover: "run", Run: "run", Verify: "verify", Finalize: "checkup", Aggregate: "checkup"}


def next_step(app: App, issue_number: int, loop_id: str | None = None) -> Step | Question | Idle:
    """What this issue needs now, by its log. Writes nothing."""
    world = read_world(app)
    state = world.state(issue_number)
    if state.done:
        return Idle("done", done=True)
    found = loop.read_loop(app, loop_id) if loop_id else None
    if state.task_key in world.cancelled:
        return Idle("cancelled: its document was approved without it")
    rule = halt_of(state)
    if found and (gone := _left(found, state)):
        return Idle(gone, unasked=question_about(state, rule) if rule else None)
    if rule:
        return question_about(state, rule, loop_id)
    step = step_for(world.scope((state.task_key,)), state)
    funds = read_funds(app, world)
    if isinstance(step, (Run, Verify)) and (over := funds.overspent((state.task_key,))):
        return Idle(f"no agent may work on it: {over[state.task_key]}")
    if found and not isinstance(step, Recover):
        held_back = _held_back(found) or (step and _comes_first(world, found, funds, step))
        if held_back:
            return Idle(held_back)
    return step or Idle(_why_waiting(world, state))


def perform(app: App, step: Step, loop_id: str | None = None, *, wait_seconds: float = 0, note: str = "") -> TaskState:
    """Take one step under the driver lock, and deliver what follows from it (rulings R3, R9, R12).

    *note* is what a person wants to say in the report of a verification.
    What stands in the step's way is recorded as a question to a person, wherever the log allows to (R12). Raises Busy
    when another driver lives, NotEligible when the log has moved on or the loop calls for something else by now,
    Cancelled when asked to stop.
    """
    skill = SKILL[type(step)]
    with app.driver.hold(f"{step.task_key}, {skill}", wait_seconds=wait_seconds):
        number = _number(app, step.task_key)
        settle_leftovers(app, spare=number if isinstance(step, Recover) else None)
        try:
            if loop_id:
                _require_turn(app, step, number, loop_id)
                loop.spend(app, loop_id, step.task_key, skill)
            state = _take(app, step, number, note)
        except NotEligible:  # nothing is left to do but what a driver did not get to that died behind its event
            deliver(app, number)
            raise
        except (EnvironmentRefused, RemoteFailed, ConfigRefused) as error:
            state = _blocked(app, number, error)
        if loop_id:
            loop.settle(app, loop_id, state.last_event)
        follow_up(app, state)
    return state


def follow_up(app: App, state: TaskState) -> None:
    """What follows from new events of an issue, for all to see: the forge, the brief (R9)."""
    deliver(app, state.issue_number)
    lift_draft(app, state)
    write_projections(app, read_world(app), state)


def stop_at(app: App, issue_number: int, reason: str) -> TaskState:
    """Settle what was cut off, and record that the work on this issue was stopped: a person says how to go on.

    Nothing is recorded where a person is asked already. The caller holds the driver lock.
    """
    settle_leftovers(app)
    state = read_world(app).state(issue_number)
    if state.done or halt_of(state):
        return state
    state = block(app, state, "cancelled", reason)
    follow_up(app, state)
    return state


def _require_turn(app: App, step: Step, issue_number: int, loop_id: str) -> None:
    """Raise NotEligible if the issue's next step is not *step* any more: who had the lock may have changed that."""
    found = next_step(app, issue_number, loop_id)
    if found != step:
        raise NotEligible(
            f"issue-{issue_number} was to {SKILL[type(step)]}, and the log has moved on: {_in_words(found)}",
            remedy=f"`irontree show issue-{issue_number}` tells what happened",
        )


def _in_words(found: Step | Question | Idle) -> str:
    if isinstance(found, Idle):
        return found.reason
    return found.rule.title if isinstance(found, Question) else f"{SKILL[type(found)]} comes next"


def _take(app: App, step: Step, issue_number: int, note: str) -> TaskState:
    match step:
        case Recover():
            return run.recover(app, issue_number)
        case Run():
            return run.run(app, issue_number)
        case Verify():
            return verify.verify(app, issue_number, note=note)
        case Finalize():
            return checkup.finalize(app, issue_number)
        case Aggregate():
            return checkup.aggregate(app, issue_number)


def _blocked(app: App, issue_number: int, error: EnvironmentRefused | RemoteFailed | ConfigRefused) -> TaskState:
    if app.cancel.is_set():
        raise error
    state = read_world(app).state(issue_number)
    try:
        return block_for(app, state, error)
    except IllegalTransition:  # in the middle of an attempt: its recovery asks first
        raise error from None


def _left(found: loop.Loop, state: TaskState) -> str | None:
    """Why this issue is none of the loop's business any more, its questions included (ruling R17)."""
    if state.task_key in found.cancelled:
        return "skipped in this loop"
    if not found.is_open:
        return f"its loop is {found.entity.status}"
    return None


def _held_back(found: loop.Loop) -> str | None:
    if found.entity.status != "running":
        return f"its loop is {found.entity.status}"
    if found.budget_left <= 0:
        return "the loop has used its transitions"
    return None


def _comes_first(world: World, found: loop.Loop, funds: Funds, step: Step) -> str | None:
    """What the loop does before *step*; None if it is its turn. An answer, or a person, woke the run of the issue."""
    first = decide(scope_of(found, world, funds))
    if first == step:
        return None
    if isinstance(first, Halt):
        return "its loop is about to halt"
    return f"{named(world, first.task_key)} comes first in its loop"


def _why_waiting(world: World, state: TaskState) -> str:
    waiting = waits_for(world, state.task_key)
    return f"waits for {', '.join(waiting)}" if waiting else "nothing to do"


def _number(app: App, task_key: str) -> int:
    state = read_world(app).states.get(task_key)
    if state is None:
        raise NotEligible(f"{task_key} has no issue yet", remedy="`irontree task SPEC.md` publishes it")
    return state.issue_number
