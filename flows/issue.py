"""`issue`: the only driver of an issue, and the run that waits when a decision about it is a person's (design, 6)."""

from __future__ import annotations

import asyncio
from typing import Final

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed

from irontree.app import App
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.errors import AnswerRefused
from irontree.flows.asking import ask_until_taken
from irontree.flows.lifeline import finish_asked
from irontree.flows.living import living
from irontree.flows.names import is_key_of_another_revision, issue_run_name, step_title
from irontree.flows.starting import let_loop_go_on
from irontree.services.answers import Answer, validate
from irontree.services.steps import Idle, Question, next_step
from irontree.services.world import read_world
from irontree.tasks.stages import REFUSED, answer_stage, checkup_stage, open_here, run_stage, verify_stage

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
        while not _superseded(app, number):
            found = await asyncio.to_thread(next_step, app, number, loop_id)
            if isinstance(found, Question):
                await _decide(app, number, found)
            elif isinstance(found, Idle):
                if found.done or not await let_loop_go_on(app, number, loop_id):
                    return Completed(name="Done" if found.done else "Waiting", message=found.reason)
            elif finish_asked():
                return Completed(name="Stopped", message="stopped after a finished step")
            else:
                await _take(app, number, found, loop_id)
        await let_loop_go_on(app, number, loop_id)
        return Completed(name="Superseded", message="approved again: the new revision has a run of its own")


def _superseded(app: App, number: int) -> bool:
    """Whether the issue was approved again since this run was made: two runs must not drive one issue."""
    context = FlowRunContext.get()
    key = context.flow_run.idempotency_key if context and context.flow_run else None
    return is_key_of_another_revision(key, app, read_world(app).state(number))


async def _take(app: App, number: int, step: Step, loop_id: str | None) -> None:
    """One step, as one task run named after it."""
    state = read_world(app).state(number)
    stage = STAGES[type(step)].with_options(task_run_name=step_title(step, state))
    await stage(str(app.repository.root), step, loop_id)


async def _decide(app: App, number: int, question: Question) -> None:
    """Suspend until a person decides, and record the decision."""

    async def record(answer: Answer) -> None:
        choice = validate(question, answer)
        stage = answer_stage.with_options(task_run_name=f"checkup: {choice.name}")
        taken = await stage(str(app.repository.root), number, answer, question.loop_id)
        if taken.name == REFUSED:
            raise AnswerRefused(taken.message or "")

    await ask_until_taken(app, question, record)
