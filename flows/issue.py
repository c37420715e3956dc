"""`issue`: the only driver of an issue, and the run that waits for its approver's decisions (rulings, Questions)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.states import Completed

from irontree.app import App, Origin
from irontree.domain.decide import TIMER, Aggregate, Finalize, Recover, Run, Step, Verify, is_due
from irontree.errors import AnswerRefused, IrontreeError
from irontree.flows.gate import RecordAnswer, ask_until_taken, refuse_late_answers, take_late_answer
from irontree.flows.runs.recovery import hold_liveness, start_issue, start_loop, waits_if_refused
from irontree.flows.runs.runs import is_key_of_issue, issue_key, step_title, url_for, wait_for
from irontree.flows.server.programs import finish_asked
from irontree.services.answers.answers import Answer, validate
from irontree.services.execution.steps import Idle, next_step
from irontree.services.loops.choice import may_go_on, replacement
from irontree.services.loops.loop import loop_of, open_loops, read_loop
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.services.views.overview import title_of
from irontree.tasks.artifacts import tell_story
from irontree.tasks.stages import REFUSED, answer_stage, app_of, checkup_stage, open_here, run_stage, verify_stage

STAGES: Final = {
    Recover: run_stage,
    Run: run_stage,
    Verify: verify_stage,
    Aggregate: checkup_stage,
    Finalize: checkup_stage,
}


LOOP_STARTS_WITHIN: Final = 30.0
"""Seconds that an answered issue's run waits for its loop; after that the loop restarts it."""


def issue_run_name() -> str:
    """`#6 Print a summary`: the run's given name; for one created by hand, derived from its parameters."""
    parameters = flow_run.get_parameters()
    number, given = int(parameters["number"]), flow_run.get_name() or ""
    if given.startswith(f"#{number} "):
        return given
    try:
        world = read_world(app_of(parameters["repository"], origin=Origin(actor="irontree")))
    except IrontreeError:  # the run itself reports it
        return f"#{number}"
    state = world.replays[number].state if number in world.replays else None
    return f"#{number} {title_of(world, state.task_key)}" if state else f"#{number}"


@flow(name="issue", flow_run_name=issue_run_name, retries=0, persist_result=False)
@waits_if_refused
async def issue(repository: str, number: int, loop_id: str | None = None) -> State[None]:
    """Bring one issue as far as its log allows: take steps, ask a person, end when it is done or must wait.

    Everything is read from the log each time round, so the run may start again from here at any moment.

    Args:
        repository: The folder of the repository.
        number: The number of the issue, as in `#12`.
        loop_id: The loop that the issue is worked on for, if not the one that is open.
    """
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        if handed_over := await asyncio.to_thread(_hand_over, app, number, loop_id):
            return Completed(name="Handed over", message=handed_over)
        await refuse_late_answers(await asyncio.to_thread(_answerable, app, number, loop_id))
        while not await asyncio.to_thread(_superseded, app, number):
            found = await asyncio.to_thread(next_step, app, number, loop_id)
            if isinstance(found, Question):
                if not await _time_answers(app, number, found):
                    await ask_until_taken(app, found, _recorder(app, number, found))
            elif isinstance(found, Idle):
                if ended := await _rest(app, number, found, loop_id):
                    return ended
            elif finish_asked():
                return Completed(name="Stopped", message="stopped after a finished step")
            elif refusal := await _take(app, number, found, loop_id):
                return Completed(name="Waiting", message=refusal)
        await _let_loop_go_on(app, number, loop_id)
        return Completed(name="Superseded", message="approved again: the new revision has a run of its own")


def _superseded(app: App, number: int) -> bool:
    """Whether the issue was approved again since this run was created: two runs must not drive one issue."""
    key, state = _key(), read_world(app).state(number)
    return is_key_of_issue(key, app, state) and key != issue_key(app, state)


def _hand_over(app: App, number: int, loop_id: str | None) -> str | None:
    """If this run was created by hand, a second driver, start the issue's own run; returns where that is, in words."""
    state = read_world(app).state(number)
    if is_key_of_issue(_key(), app, state):
        return None
    own = start_issue(app, state, loop_id or loop_of(open_loops(app), state.task_key))
    return f"the run of this issue is {own.name}: {url_for(own.id)}"


def _answerable(app: App, number: int, loop_id: str | None) -> Question | None:
    """The question to which an answer still counts, asked or not."""
    found = next_step(app, number, loop_id)
    if isinstance(found, Idle):
        return found.unasked
    return found if isinstance(found, Question) else None


def _key() -> str | None:
    """The idempotency key of this run."""
    context = FlowRunContext.get()
    return context.flow_run.idempotency_key if context and context.flow_run else None


async def _rest(app: App, number: int, idle: Idle, loop_id: str | None) -> State[None] | None:
    """The run's final state if there is nothing to do; `None` if its loop continues or an answer came."""
    await tell_story(app, number)
    if idle.done:
        return Completed(name="Done", message=idle.reason)
    if await _let_loop_go_on(app, number, loop_id):
        return None
    said = idle.reason
    if idle.unasked and (late := await take_late_answer(idle.unasked, _recorder(app, number, idle.unasked))):
        if late.taken:
            return None
        said = f"{said}. {late.said}"
    return Completed(name="Waiting", message=said)


async def _take(app: App, number: int, step: Step, loop_id: str | None) -> str | None:
    """Run one step as a task run named after it; returns why it could not be taken, if so."""
    state = (await asyncio.to_thread(read_world, app)).state(number)
    stage = STAGES[type(step)].with_options(task_run_name=step_title(step, state))
    taken = await stage(str(app.repository.root), step, loop_id)
    return taken.message if taken.name == REFUSED else None


async def _time_answers(app: App, number: int, question: Question) -> bool:
    """Continue if only time had to pass, and it has; `False` if the question must be asked. A user may be faster."""
    if not is_due(question.timer, app.clock.now()):
        return False
    late = await take_late_answer(question, _recorder(app, number, question))
    if late is None or not late.taken:
        await _recorder(app, number, question, channel=TIMER)(Answer("go-on", by=TIMER, question=question.key))
    return True


def _recorder(app: App, number: int, question: Question, *, channel: str = "form") -> RecordAnswer:
    """Return a function that records a decision as a step of this run; it raises AnswerRefused."""

    async def record(answer: Answer) -> None:
        choice = validate(question, answer)
        if holder := app.driver.holder():
            get_run_logger().info("The answer is recorded once this has ended: %s", holder.what)
        stage = answer_stage.with_options(task_run_name=f"checkup: {choice.name}")
        taken = await stage(str(app.repository.root), number, answer, question.loop_id, channel)
        if taken.name == REFUSED:
            raise AnswerRefused(taken.message or "")

    return record


async def _let_loop_go_on(app: App, number: int, loop_id: str | None) -> bool:
    """Start the next run of the loop that halted and waits for this answer; returns whether the loop continues.

    Waits until that run has the lease and reports it, or ends without.
    """
    if loop_id is None:
        return False
    following = await asyncio.to_thread(replacement, app, loop_id)
    if following and following.sequence == 1:  # the answer was an approval of other tasks, which no run drives yet
        await asyncio.to_thread(start_loop, app, following.id)
    if not await asyncio.to_thread(_waits_for_answer, app, loop_id, number):
        return False
    run = await asyncio.to_thread(start_loop, app, loop_id)
    # With two halted loops answered at once, each issue's run would keep the slot that the other's loop needs.
    with suppress(TimeoutError):
        going_on = wait_for(lambda: None if _waits_for_answer(app, loop_id, number) else True, run.id)
        await asyncio.wait_for(going_on, LOOP_STARTS_WITHIN)
    return not await asyncio.to_thread(_waits_for_answer, app, loop_id, number)


def _waits_for_answer(app: App, loop_id: str, number: int) -> bool:
    """Whether the loop is still halted: at this issue, or although an answer elsewhere lets it go on."""
    entity = read_loop(app, loop_id).entity
    if entity.status == "halted" and entity.halt_at_task_key == read_world(app).state(number).task_key:
        return True
    return may_go_on(app, loop_id)
