"""`loop`: start one issue's run after the other until the goal is reached or a user is needed (Loop Mode)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from irontree.app import App
from irontree.domain.decide import Halt
from irontree.domain.halt import RULE, halt_of
from irontree.domain.state import TaskState
from irontree.errors import Busy, SequenceConflict, in_words
from irontree.flows.gate import ask_until_taken, refuse_late_answers
from irontree.flows.runs.ends import End, say_ends
from irontree.flows.runs.recovery import (
    have_asking,
    have_beside_asking,
    hold_liveness,
    pages_of_issues,
    row_title,
    start_issue,
    waits_if_refused,
)
from irontree.flows.runs.runs import (
    RunInfo,
    cancel,
    connect,
    reschedule,
    state,
    step_title,
    taken_up,
    url_for,
    wait_for,
)
from irontree.flows.server.programs import finish_asked
from irontree.services.answers.answers import Answer, answer_loop, give_way
from irontree.services.answers.comments import look
from irontree.services.delivery.deliver import tell_halts_if_free
from irontree.services.execution.steps import put_in_order, recover_lease, stop_at
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.questions.questions import Question, question_about, question_of_loop, questions_beside
from irontree.services.record import read_world, state_of
from irontree.services.views.history import say_goal, say_issue_event
from irontree.tasks.artifacts import mirror, show_loop
from irontree.tasks.stages import WAIT_FOR_DRIVER, open_here, watch_issue

logger = logging.getLogger(__name__)

Show = Callable[[UUID | None], Coroutine[Any, Any, UUID | None]]
"""Shows the progress, updating what an earlier call has shown."""
SHOWN_WITHIN: Final = 30.0
"""Seconds to wait at the end of the work for an update in progress."""


@asynccontextmanager
async def display(show: Show, *, within: float = SHOWN_WITHIN) -> AsyncIterator[Callable[[], None]]:
    """Yield a function that requests another call of *show*; calls run beside the work, one at a time.

    Errors in it are logged. At the end of the block an update in progress is awaited for *within* seconds, or not at
    all if the block was cancelled.
    """
    wanted: asyncio.Queue[None] = asyncio.Queue(maxsize=1)

    async def keep_showing() -> None:
        shown = None
        while True:
            await wanted.get()
            try:
                shown = await show(shown)
            except Exception:  # of the server or its client, of any class: the work goes on without its picture
                logger.warning("how far the loop is could not be shown", exc_info=True)
            wanted.task_done()

    def again() -> None:
        with suppress(asyncio.QueueFull):
            wanted.put_nowait(None)

    showing, patience = asyncio.create_task(keep_showing()), within
    try:
        yield again
    except asyncio.CancelledError:
        patience = 0
        raise
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(wanted.join(), patience)
        showing.cancel()
        await asyncio.wait({showing})


CANCELLED = "was cancelled in Prefect"
ENDS_WITHOUT_PROGRESS = 3
"""How often an issue's run may end without a new event before the loop gives up on it."""
HALTED = "Halted"
TELL_WITHIN = 30.0
"""Seconds that a halted loop waits to report it on the forge. Its question is open by then, its lease free."""
TELL_BEFORE_FORM = 2.0
"""The same for the loop's own questions, whose form appears only after that."""


@flow(name="loop", flow_run_name="loop {loop_id}", retries=0, persist_result=False)
@waits_if_refused
async def loop(repository: str, loop_id: str) -> State[None]:
    """Drive the loop under its lease: the issue in progress first, then the next (protocol, Decision Function).

    At an issue's halt this run ends: the issue's own run asks. It suspends only for the loop's own questions. With
    `loop.on_halt: go_on` it ends there only once nothing else is left to do.

    Args:
        repository: The folder of the repository.
        loop_id: The loop, as `irontree status --loops` lists it.
    """
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        late = await refuse_late_answers(await asyncio.to_thread(question_of_loop, app, loop_id))
        while True:
            question = await asyncio.to_thread(question_of_loop, app, loop_id)
            if question:
                await _ask(app, loop_id, question)
            try:
                ending = await _drive_with_lease(app, loop_id)
            except Busy as error:
                return Completed(name="Busy", message=". ".join(filter(None, (in_words(error), late))))
            if ending is None or ending.name == HALTED:
                patience = TELL_WITHIN if ending else TELL_BEFORE_FORM
                await asyncio.to_thread(tell_halts_if_free, app, f"loop {loop_id}, halted", wait_seconds=patience)
            if ending:
                return ending


async def _ask(app: App, loop_id: str, question: Question) -> None:
    """Suspend for a question of the loop itself, with the lease released."""

    async def record(answer: Answer) -> None:
        await asyncio.to_thread(answer_loop, app, loop_id, answer)

    await ask_until_taken(app, question, record)


async def _drive_with_lease(app: App, loop_id: str) -> State[None] | None:
    in_the_way = await asyncio.to_thread(recover_lease, app, loop_id, wait_seconds=WAIT_FOR_DRIVER)
    if in_the_way:
        return await asyncio.to_thread(_halt, app, loop_id, in_the_way)
    with app.lease.hold(loop_id):
        await asyncio.to_thread(put_in_order, app, f"loop {loop_id}")
        try:
            async with display(partial(_show, app, loop_id)) as show_again:
                return await _drive(app, loop_id, show_again)
        except asyncio.CancelledError:
            await asyncio.to_thread(_stop_if_cancelled, app, loop_id)
            raise


def _stop_if_cancelled(app: App, loop_id: str) -> None:
    """Halt the loop and its issue's run if a user cancelled it in Prefect; a worker's end is no cancellation."""
    with connect() as client:
        if not state(client, UUID(flow_run.get_id())).cancelled:
            return
        loops.halt(app, loop_id, Halt("blocked", detail=f"the run of the loop {CANCELLED}"))
        for run in taken_up(client, app.repository.id):
            if "number" in run.parameters and run.parameters.get("loop_id") == loop_id:
                cancel(client, run.id)


async def _drive(app: App, loop_id: str, show_again: Callable[[], None]) -> State[None] | None:
    """Run until the goal is reached or a user is needed; `None` if the loop itself has to ask."""
    ends = defaultdict[str, list[End]](list)
    asked: set[str] = set()
    while True:
        await asyncio.to_thread(give_way, app)
        await asyncio.to_thread(_attend_to_waiting, app, loop_id, asked)
        now = await asyncio.to_thread(loops.read_loop, app, loop_id)
        if not now.is_open:
            return Completed(name=now.entity.status.title())
        decision = await asyncio.to_thread(next_decision, app, loop_id)
        if isinstance(decision, Halt):
            show_again()
            try:
                return await asyncio.to_thread(_halt, app, loop_id, decision)
            except SequenceConflict:  # somebody skipped a task or stopped the loop meanwhile
                continue
        if finish_asked():
            await asyncio.to_thread(app.repository.back_up)
            return Completed(name="Stopped", message="stopped after a finished step")
        await asyncio.to_thread(loops.resume, app, loop_id)
        await asyncio.to_thread(mirror, app)
        before = (await asyncio.to_thread(read_world, app)).states[decision.task_key]
        run = await asyncio.to_thread(_set_going, app, loop_id, before)
        show_again()
        stopped_short = await _follow(app, before, run)
        if stopped_short is None:
            ends.clear()
            continue
        those = ends[decision.task_key]
        those.append(await asyncio.to_thread(_end, app, step_title(decision, before), stopped_short))
        if len(those) >= ENDS_WITHOUT_PROGRESS:
            stuck = Halt("protocol_gap", detail=say_ends(decision.task_key, those))
            return await asyncio.to_thread(_halt, app, loop_id, stuck)


def _end(app: App, step: str, run: RunInfo) -> End:
    """How that run ended at *step*; what its process left behind is known until the next driver begins."""
    died = run.state == "CRASHED"
    return End(step, run.message or run.state_name, app.children.left_behind() if died else ())


def _attend_to_waiting(app: App, loop_id: str, asked: set[str]) -> None:
    """Have the issues ask that wait while others go on, and take up what was answered or merged meanwhile (R17).

    *asked* are the keys of the questions that this run has seen to; new ones are added.
    """
    world = read_world(app)
    questions = questions_beside(world, loops.read_loop(app, loop_id))
    if not questions:
        return
    if any(world.state(question.number).is_proposed for question in questions):
        put_in_order(app, f"loop {loop_id}", wait_seconds=WAIT_FOR_DRIVER)  # the last step may still be told
    look(app)
    if keys := {question.key for question in questions} - asked:
        have_beside_asking(app, loop_id)
        asked |= keys


async def _show(app: App, loop_id: str, shown: UUID | None) -> UUID | None:
    """Show the loop's progress, in the bar *shown*."""
    return await show_loop(app, loop_id, shown, await asyncio.to_thread(pages_of_issues, app, loop_id))


async def _follow(app: App, before: TaskState, run: RunInfo) -> RunInfo | None:
    """Wait until the issue is done or halted; returns its run if that ended without any progress."""
    found = await _watch(app, before, run)
    if not isinstance(found, RunInfo):
        return None
    if found.cancelled:
        await asyncio.to_thread(_stop_at, app, before.issue_number)
        return None
    after = await asyncio.to_thread(state_of, app, before.issue_number)
    return found if after and after.sequence == before.sequence else None


async def _watch(app: App, before: TaskState, run: RunInfo) -> RunInfo | bool:
    """Wait for the issue's run, shown as a row of our own run's page with a log of what happened."""
    logger, title = get_run_logger(), await asyncio.to_thread(row_title, app, before)
    logger.info("%s: at %s", title, url_for(run.id))
    row = watch_issue.with_options(task_run_name=title)
    found = await row(lambda: wait_for(lambda: _settled(app, before.issue_number), run.id))
    for line in await asyncio.to_thread(list, _what_happened(app, before.issue_number, after=before.sequence)):
        logger.info(line)
    return found


def _what_happened(app: App, issue_number: int, *, after: int) -> Iterator[str]:
    """The events of the issue after the sequence *after*, in words."""
    for record in app.log.read(issue_number).records:
        if record.event.sequence > after:
            yield f"#{issue_number} {say_issue_event(record)}"


def _stop_at(app: App, issue_number: int) -> None:
    with app.driver.hold(f"issue-{issue_number}, cancelled", wait_seconds=WAIT_FOR_DRIVER):
        stop_at(app, issue_number, f"its run {CANCELLED}")


def _set_going(app: App, loop_id: str, state: TaskState) -> RunInfo:
    """Start the issue's run; restart one that is suspended although its question was answered elsewhere."""
    run = start_issue(app, state, loop_id)
    if run.state != "PAUSED":
        return run
    with connect() as client:
        return reschedule(client, run.id)


def _settled(app: App, issue_number: int) -> bool | None:
    """`True` once the issue is done or waits for a user."""
    state = state_of(app, issue_number)
    return True if state and (state.done or halt_of(state)) else None


def _halt(app: App, loop_id: str, decision: Halt) -> State[None] | None:
    """Record why the loop stops; an issue's question is asked by its own run, the loop's by this one."""
    if _stopped_elsewhere(app, loop_id, decision):
        loops.resume(app, loop_id)
    if decision.reason == "goal_reached":
        return _reach_goal(app, loop_id)
    loops.halt(app, loop_id, decision)
    mirror(app)
    ending = _have_asked(app, loop_id, decision)
    app.repository.back_up()
    return ending


def _reach_goal(app: App, loop_id: str) -> State[None]:
    completed = loops.complete(app, loop_id)
    mirror(app)
    app.repository.back_up()
    return Completed(name="Goal reached", message=say_goal(completed.cancelled))


def _have_asked(app: App, loop_id: str, decision: Halt) -> State[None] | None:
    """Have the issue's run ask, and report where; `None` if the question is the loop's own."""
    have_beside_asking(app, loop_id)
    if decision.task_key is None:
        return None
    state, rule = read_world(app).states[decision.task_key], RULE[decision.reason]
    run = have_asking(app, state, question_about(state, rule, loop_id))
    said = f"{rule.title}: {decision.task_key}. Answer at {url_for(run.id)} (Resume)"
    if len(decision.waiting) > 1:
        said = f"{said}. Open questions of issues: {len(decision.waiting)}"
    return Completed(name=HALTED, message=said)


def _stopped_elsewhere(app: App, loop_id: str, decision: Halt) -> bool:
    """Whether the log still shows an earlier, answered halt: the loop has since continued up to this one."""
    entity = loops.read_loop(app, loop_id).entity
    return entity.status == "halted" and (entity.halt_reason, entity.halt_at_task_key) != (
        decision.reason,
        decision.task_key,
    )
