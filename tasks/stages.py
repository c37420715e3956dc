"""The tasks of an issue's flow run. Each row in the UI is work that happened: nothing is cached or persisted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from irontree.app import App, Origin
from irontree.domain.decide import Step
from irontree.errors import Cancelled, IrontreeError, in_words
from irontree.ports import Cancellation
from irontree.services.answers import NOT_TAKEN, Answer, answer_issue
from irontree.services.execution.steps import perform
from irontree.services.world import read_world
from irontree.tasks.artifacts import publish_report
from irontree.tasks.blocking import in_thread
from irontree.tasks.log_stream import LogProgress, never_silent
from irontree.tasks.mirror import mirror
from irontree.tasks.opening import app_of

Found = TypeVar("Found")

REFUSED = "Refused"
"""The state of an answer that was not taken, and of a step that could not be; its message says why."""
WAIT_FOR_DRIVER = 900.0
"""Seconds to wait for a command that holds the driver lock before the run gives up."""


@task(name="run", cache_policy=NO_CACHE, persist_result=False)
async def run_stage(repository: str, step: Step, loop_id: str | None) -> State[None]:
    """One attempt of the coding agent, or the recovery of one that was cut off."""
    return await _take(repository, step, loop_id)


@task(name="verify", cache_policy=NO_CACHE, persist_result=False)
async def verify_stage(repository: str, step: Step, loop_id: str | None) -> State[None]:
    """The repository's own checks at the task's commit, and its publication."""
    app = await asyncio.to_thread(open_here, repository)
    before = await asyncio.to_thread(_known, app, step.task_key)
    taken = await _take(repository, step, loop_id)
    await publish_report(app, step.task_key, after=before)
    return taken


@task(name="checkup", cache_policy=NO_CACHE, persist_result=False)
async def checkup_stage(repository: str, step: Step, loop_id: str | None) -> State[None]:
    """Finalization of an issue, or aggregation of its children."""
    return await _take(repository, step, loop_id)


@task(name="issue", cache_policy=NO_CACHE, persist_result=False)
async def watch_issue(watch: Callable[[], Awaitable[Found]]) -> Found:
    """The time that an issue's own run takes, as a row of its loop's page."""
    return await watch()


@task(name="answer", cache_policy=NO_CACHE, persist_result=False)
async def answer_stage(
    repository: str, number: int, answer: Answer, loop_id: str | None, channel: str = "form"
) -> State[None]:
    """What a person or the timer decided, validated against the log and recorded; or named REFUSED, with the reason."""

    def record(cancel: Cancellation) -> State[None]:
        app = open_here(repository, cancel, channel=channel, actor=answer.by)
        try:
            with app.driver.hold(f"issue-{number}, answer", wait_seconds=WAIT_FOR_DRIVER):
                answer_issue(app, number, answer, loop_id)
        except NOT_TAKEN as error:
            return _refused(error)
        mirror(app)
        return Completed(name="Recorded", message=f"by {answer.by}")

    return await in_thread(record)


def open_here(
    repository: str,
    cancel: Cancellation | None = None,
    *,
    channel: str = "flow",
    actor: str = "irontree",
    progress: LogProgress | None = None,
) -> App:
    """The ports of *repository* on behalf of the flow run this is called in; progress goes to its log."""
    origin = Origin(actor=actor, channel=channel, flow_run=flow_run.get_id())
    return app_of(repository, origin=origin, cancel=cancel, progress=progress or LogProgress(get_run_logger()))


async def _take(repository: str, step: Step, loop_id: str | None) -> State[None]:
    progress = LogProgress(get_run_logger())

    def take(cancel: Cancellation) -> State[None]:
        app = open_here(repository, cancel, progress=progress)
        try:
            state = perform(app, step, loop_id, wait_seconds=WAIT_FOR_DRIVER)
        except Cancelled:
            raise
        except IrontreeError as error:
            return _refused(error)
        mirror(app)
        return Completed(message=state.last_event)

    async with never_silent(progress):
        return await in_thread(take)


def _refused(error: IrontreeError) -> State[None]:
    return Completed(name=REFUSED, message=in_words(error))


def _known(app: App, task_key: str) -> int:
    """The sequence of the issue's newest event before a step."""
    state = read_world(app).states.get(task_key)
    return state.sequence if state else 0
