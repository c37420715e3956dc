"""`issue`: the only driver of an issue, and the run that waits when a decision about it is a person's (design, 6)."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused
from irontree.flows.asking import ask_person
from irontree.flows.lifeline import finish_asked
from irontree.flows.living import living
from irontree.flows.names import issue_run_name, step_title
from irontree.flows.starting import let_loop_go_on
from irontree.services.answers import Answer, validate
from irontree.services.steps import Idle, Question, next_step
from irontree.services.world import read_world
from irontree.tasks.stages import answer_stage, checkup_stage, open_here, run_stage, verify_stage

STAGES: Final = {
    Recover: run_stage,
    Run: run_stage,
    Verify: verify_stage,
    Aggregate: checkup_stage,
    Finalize: checkup_stage,
}


@flow(name="issue", flow_run_name=issue_run_name, retries=0, persist_result=False)
async def issue(repository: str, number: int, loop_id: str | None = None) -> State[None]:
    """Bring one issue as far as its log allows: take steps, ask a person, end when it is done or must wait.

    Everything is read from the log each time round, so the run may start again from here at any moment.
    """
    app = open_here(repository)
    with living(app):
        while True:
            found = await asyncio.to_thread(next_step, app, number, loop_id)
            if isinstance(found, Idle | Question):
                await asyncio.to_thread(app.repository.back_up)
            if isinstance(found, Idle):
                return Completed(name="Done" if found.done else "Waiting", message=found.reason)
            if isinstance(found, Question):
                await _decide(repository, number, found)
                continue
            if finish_asked():
                return Completed(name="Stopped", message="stopped after a finished step")
            await _take(repository, number, found, loop_id)


async def _take(repository: str, number: int, step: Step, loop_id: str | None) -> None:
    """One step, as one task run named after it."""
    state = read_world(open_here(repository)).state(number)
    stage = STAGES[type(step)].with_options(task_run_name=step_title(step, state))
    await stage(repository, step, loop_id)


async def _decide(repository: str, number: int, question: Question) -> None:
    """Suspend until a person decides, record the decision, and let the loop go on.

    A refused answer stays stored in Prefect; it is looked at and refused again on every replay, and the question
    is asked under its next key.
    """
    app, refusal = open_here(repository), ""
    for asking in count(1):
        answer = await ask_person(app, question, asking, refusal)
        result = await _record(repository, number, question, answer)
        if not isinstance(result, AnswerRefused):
            break
        refusal = f"{result.message}. {result.remedy or ''}"
    if question.loop_id:
        await let_loop_go_on(app, question.loop_id)


async def _record(repository: str, number: int, question: Question, answer: Answer) -> TaskState | AnswerRefused:
    try:
        choice = validate(question, answer)
    except AnswerRefused as error:
        return error
    stage = answer_stage.with_options(task_run_name=f"checkup: {choice.name}")
    return await stage(repository, number, answer, question.loop_id)
