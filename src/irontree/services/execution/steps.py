"""The steps of an issue: what is next, taking it, and first settling what an earlier process left unfinished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from irontree.app import App
from irontree.domain import typed
from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Step, Verify, decide, step_for
from irontree.domain.halt import halt_of
from irontree.domain.plan import PublishPolicy
from irontree.domain.state import Phase, TaskState
from irontree.errors import (
    FORGE_FAILED,
    AnswerRefused,
    Busy,
    ConfigRefused,
    EnvironmentRefused,
    IllegalTransition,
    LogDamaged,
    NotEligible,
    RemoteFailed,
    in_words,
)
from irontree.ports import LeftLease
from irontree.services.delivery.deliver import deliver, tell_halts
from irontree.services.execution import checkup, run, verify
from irontree.services.execution.merging import lift_draft, settle_requests
from irontree.services.execution.publish import cut_short, publish, release_approved
from irontree.services.execution.rounds import aggregate_reviewed
from irontree.services.execution.run import recover
from irontree.services.loops import loop
from irontree.services.loops.choice import next_decision, replace_open, scope_of
from irontree.services.loops.funds import Funds, read_funds
from irontree.services.questions.questions import Question, question_about
from irontree.services.record import World, read_world
from irontree.services.views.overview import named, waits_for
from irontree.services.views.report import write_projections
from irontree.services.views.workflow_run import show_runs
from irontree.services.work.preflight import block, block_for, taken_back


def require_not_published(app: App, world: World, state: TaskState) -> None:
    """Raise AnswerRefused if the target, fetched now if it can be, already has the commit that waits for acceptance."""
    fetch_targets(app, world, (state,))
    for number, what, way_on in already_published(app, world, (state,)):
        raise AnswerRefused(f"issue-{number}: {what}; only acceptance is left", remedy=way_on)


def fetch_targets(app: App, world: World, states: Iterable[TaskState]) -> None:
    """Fetch the targets of commits that wait for acceptance, or that were published.

    One that cannot be reached stays as last fetched. The caller holds the driver lock.
    """
    concerned = (state for state in states if waits_with_commit(world, state) or world.landed(state))
    targets = (world.plan(state).policy.publish for state in concerned)
    for where in {(policy.remote, policy.target_branch): policy for policy in targets}.values():
        with suppress(RemoteFailed, EnvironmentRefused):
            app.repository.base(where)


def already_published(app: App, world: World, states: Iterable[TaskState]) -> Iterator[tuple[int, str, str]]:
    """Issue number, problem and remedy of each commit that waits for acceptance although its target has it.

    As of the last fetch.
    """
    for state in states:
        if not waits_with_commit(world, state) or state.anchor is None:
            continue
        where = world.plan(state).policy.publish
        if app.repository.has_published(state.anchor, where):
            what = f"{state.anchor[:12]} waits for acceptance, but {where.target_branch} has it already"
            accept = f"`{typed.accept(state.issue_number)}`"
            yield (
                state.issue_number,
                what,
                f"{accept} records that; put further changes into its document afterwards",
            )


def gone_from_target(app: App, world: World, states: Iterable[TaskState]) -> Iterator[tuple[int, str, str]]:
    """Issue number, problem and remedy of each published commit that its target has no more, as of the last fetch."""
    landed: dict[PublishPolicy, dict[str, int]] = {}
    for state in states:
        if commit := world.landed(state):
            landed.setdefault(world.plan(state).policy.publish, {})[commit] = state.issue_number
    for policy, commits in landed.items():
        gone = app.repository.taken_back(tuple(commits), policy)
        for commit, number in commits.items():
            if commit in gone:
                yield (number, *taken_back(commit, policy))


def waits_with_commit(world: World, state: TaskState) -> bool:
    """Whether acceptance would publish a commit."""
    if state.phase is not Phase.PENDING or state.problem or not state.has_code or state.is_proposed:
        return False
    return state.task_key in world.plans and state.task_key not in world.cancelled


# --- What an earlier driver left behind


def settle_leftovers(app: App, *, spare: str = "") -> World:
    """Kill leftover processes and settle every interrupted attempt by evidence, whatever loop it was in.

    Until then an attempt's work is only in the workspace, which publication and the next attempt use too. *spare* is
    the key of the task whose recovery is the caller's own step. The caller holds the driver lock. Returns the state of
    the log after that.
    """
    app.children.kill_leftovers()
    app.run_lock.remove()  # a driver that died after an attempt's last event left it
    _remove_lease_of_ended_loop(app)
    world = read_world(app)
    cut_off = [s for s in world.states.values() if _cut_off(world, s) and s.task_key != spare]
    for state in cut_off:
        recover(app, state.issue_number)
    return read_world(app) if cut_off else world


def _remove_lease_of_ended_loop(app: App) -> None:
    """Remove `active.lock` of a loop whose process died behind its last event; that of an open loop is taken over."""
    left = app.lease.left()
    if left and left.loop_id in app.loops.ids() and not loop.read_loop(app, str(left.loop_id)).is_open:
        app.lease.remove_left()


def catch_up(app: App) -> None:
    """Settle leftovers and deliver what is due: the first action of every driving command (R7, R9).

    The caller holds the driver lock.
    """
    world = settle_leftovers(app)
    if _finish_publications(app, world):
        world = read_world(app)
    if release_approved(app, world):
        world = read_world(app)
    if any(state.request or state.renewed_from for state in world.states.values()):
        settle_requests(app, world)
        world = read_world(app)
    due = [state for state in world.states.values() if _is_due(app, state)]
    show_runs(app, world, due)
    for state in due:
        deliver(app, world, state.issue_number)
        write_projections(app, world, state)
    tell_halts(app, world)
    if due:
        app.repository.back_up()


def put_in_order(app: App, who: str, *, wait_seconds: float = 0) -> None:
    """Settle and deliver what a crash left undone; any current holder of the driver lock has done so (R9, R11)."""
    with suppress(Busy), app.driver.hold(f"{who}, catch up", wait_seconds=wait_seconds):
        catch_up(app)


def _finish_publications(app: App, world: World) -> bool:
    """Continue approved publications that were cut short (R6); returns whether there were any.

    What cannot be published now is continued later. If the log or a plan cannot be read, nothing is published: a task
    might only seem to have no issue.
    """
    unfinished = () if world.problems else cut_short(app, world)
    for plan in unfinished:
        replace_open(app, plan)
        try:
            publish(app, plan)
        except FORGE_FAILED as error:
            app.progress.note(f"{plan.spec_path} is not fully published yet: {in_words(error)}")
    return bool(unfinished)


def _cut_off(world: World, state: TaskState) -> bool:
    """Whether an interrupted attempt can be settled: its log can be trusted, and a plan lists it."""
    return state.phase is Phase.RUNNING and state.problem is None and state.task_key in world.plans


def _is_due(app: App, state: TaskState) -> bool:
    ledger = app.deliveries.load(state.issue_number)
    return ledger.sequence < state.sequence or bool(ledger.failures)


# --- The next step of an issue, and taking it


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing can be done on this issue now: it is done, cancelled, or waits for others or for its loop.

    `unasked` is the issue's question after its loop has ended for it: it is not asked here, but an answer already given
    counts.
    """

    reason: str
    done: bool = False
    unasked: Question | None = None


SKILL: Final = {Recover: "run", Run: "run", Verify: "verify", Finalize: "checkup", Aggregate: "checkup"}


def next_step(app: App, issue_number: int, loop_id: str | None = None) -> Step | Question | Idle:
    """What this issue needs now, according to its log. Writes nothing."""
    world = read_world(app)
    return _next_in(app, world, world.state(issue_number), loop_id)


def _next_in(app: App, world: World, state: TaskState, loop_id: str | None) -> Step | Question | Idle:
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
    """Take one step under the driver lock, and deliver its effects; returns the issue's state (R3, R9, R12).

    *note* is the user's remark for a verification's report. What prevents the step is recorded as a question wherever
    the log allows it (R12). Raises Busy while another driver is active, NotEligible if the log has moved on or the loop
    needs another step first, Cancelled when asked to stop.
    """
    skill = SKILL[type(step)]
    with app.driver.hold(f"{step.task_key}, {skill}", wait_seconds=wait_seconds):
        world = settle_leftovers(app, spare=step.task_key if isinstance(step, Recover) else "")
        number = _number(world, step.task_key)
        try:
            if loop_id:
                _require_turn(app, world, step, loop_id)
                loop.spend(app, loop_id, step.task_key, skill)
            state = _take(app, step, number, note)
        except NotEligible:  # a driver died between the event and its effects: only these are left
            deliver(app, world, number)
            raise
        except (EnvironmentRefused, RemoteFailed, ConfigRefused) as error:
            state = _blocked(app, number, error)
        if loop_id:
            loop.settle(app, loop_id, state.last_event)
        follow_up(app, state)
    return state


def follow_up(app: App, state: TaskState) -> None:
    """Deliver the effects of an issue's new events: on the forge, in brief and report (R9)."""
    world = read_world(app)
    show_runs(app, world, (state,))  # killed before it is delivered, an issue is due, and its run is shown again
    deliver(app, world, state.issue_number)
    if state.request:
        lift_draft(app, state)
    write_projections(app, world, state)


def stop_at(app: App, issue_number: int, reason: str) -> TaskState:
    """Settle what was interrupted, and record a stop, so that a user decides how the work continues.

    Nothing is recorded if the issue has an open question or is done. The caller holds the driver lock.
    """
    state = settle_leftovers(app).state(issue_number)
    if state.done or halt_of(state):
        return state
    state = block(app, state, "cancelled", reason)
    follow_up(app, state)
    return state


def _require_turn(app: App, world: World, step: Step, loop_id: str) -> None:
    """Raise NotEligible if *step* is no longer the issue's next step: another driver may have changed that."""
    state = world.states[step.task_key]
    if (found := _next_in(app, world, state, loop_id)) != step:
        raise NotEligible(
            f"issue-{state.issue_number} was to {SKILL[type(step)]}, and the log has moved on: {_in_words(found)}",
            remedy=f"`irontree show issue-{state.issue_number}` shows what happened",
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
            return aggregate_reviewed(app, issue_number)


def _blocked(app: App, issue_number: int, error: EnvironmentRefused | RemoteFailed | ConfigRefused) -> TaskState:
    if app.cancel.is_set():
        raise error
    state = read_world(app).state(issue_number)
    try:
        return block_for(app, state, error)
    except IllegalTransition:  # in the middle of an attempt: its recovery asks first
        raise error from None


def _left(found: loop.Loop, state: TaskState) -> str | None:
    """Why this issue, including its questions, no longer concerns the loop (R17)."""
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
    """What the loop does before *step*; None if it is its turn. An answer or a user woke the issue's run."""
    first = decide(scope_of(found, world, funds))
    if first == step:
        return None
    if isinstance(first, Halt):
        return "its loop is about to halt"
    return f"{named(world, first.task_key)} comes first in its loop"


def _why_waiting(world: World, state: TaskState) -> str:
    waiting = waits_for(world, state.task_key)
    return f"waits for {', '.join(waiting)}" if waiting else "nothing to do"


def _number(world: World, task_key: str) -> int:
    state = world.states.get(task_key)
    if state is None:
        raise NotEligible(f"{task_key} has no issue yet", remedy="`irontree task SPEC.md` publishes it")
    return state.issue_number


# --- Taking over the lease of a loop that is no longer driven (protocol, Loop lease)


STALE_LEASE: Final = "stale-loop-lease"


def recover_lease(app: App, loop_id: str, *, wait_seconds: float = 0) -> Halt | None:
    """Take over what our own process left of another loop; if a user must confirm it first, returns the halt to ask at.

    The question is recorded at the issue that this loop would work on next. Raises Busy without the driver lock.
    """
    _halt_left(app, loop_id, app.lease.left())
    left = app.lease.stale()
    if left is None:
        return None
    with app.driver.hold(f"loop {loop_id}, stale lease", wait_seconds=wait_seconds):
        catch_up(app)
        decision = next_decision(app, loop_id)
        if isinstance(decision, Halt):
            return decision
        state = read_world(app).states[decision.task_key]
        reason = f"stale loop lease detected: another tool left .mino/loops/active.lock behind: {left.words}"
        remedy = "make sure that none of its processes is running; to go on takes over its lease, and halts its loop"
        follow_up(app, block(app, state, STALE_LEASE, reason, remedy=remedy))
    return Halt("blocked", decision.task_key)


def take_over_lease(app: App) -> None:
    """After the confirmation, halt the loop that had the stale lease and free the lease; nothing without one."""
    left = app.lease.stale()
    if left:
        _halt_left(app, "", left)
        app.lease.override()


def _halt_left(app: App, loop_id: str, left: LeftLease | None) -> None:
    """Record in the previous loop that it was taken over; another tool's may be unknown here."""
    if left is None or left.loop_id in (None, loop_id) or left.loop_id not in app.loops.ids():
        return
    try:
        loop.halt(app, left.loop_id, Halt("stale_takeover", detail=left.words))
    except (NotEligible, LogDamaged) as error:
        app.progress.note(f"loop {left.loop_id} was taken over, and its own log could not record that: {error.message}")
