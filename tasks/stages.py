"""The tasks of an issue's flow run. Each row in the UI is work that was done: nothing is cached or persisted."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Step
from irontree.domain.text import secret_values, without_secrets
from irontree.errors import Cancelled, IrontreeError, in_words
from irontree.ports import Cancellation, Progress
from irontree.processes.containers import given_environment
from irontree.services.answers.answers import NOT_TAKEN, Answer, answer_issue, between_steps, give_way
from irontree.services.execution.steps import perform
from irontree.services.record import read_world
from irontree.services.toolchain.asking import answer_request
from irontree.services.views.endings import Ending, ending_of, request_ending
from irontree.tasks.artifacts import mirror, publish_report

Result = TypeVar("Result")


async def in_thread(work: Callable[[Cancellation], Result]) -> Result:
    """Run *work* in a thread and always wait for it; it gets a flag that is set when this task is cancelled.

    Prefect cancels a run by SIGTERM, which reaches an async task as CancelledError, and kills the process 30 s later.
    """
    stop = threading.Event()
    job = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([job])
        raise


# --- Opening the repository of a run: by its path, or by the name of a block


def app_of(
    repository: str,
    *,
    origin: Origin,
    cancel: Cancellation | None = None,
    progress: Progress | None = None,
) -> App:
    """The ports of *repository*: an absolute path, or the name of an `irontree-repository` block.

    Raises ConfigRefused for a block that does not exist, and what `open_app` raises.
    """
    environment = given_environment()
    if Path(repository).is_absolute():
        return open_app(Path(repository), origin=origin, cancel=cancel, progress=progress, environment=environment)
    # Declaring block types takes 25 ms of a run's start, and most runs are given a path.
    from irontree.blocks import load_repository  # noqa: PLC0415

    block = load_repository(repository)
    environment |= block.credentials.variables() if block.credentials else {}
    return open_app(Path(block.path), origin=origin, cancel=cancel, progress=progress, environment=environment)


# --- A step's output in its run's log: bounded, without secrets, and never silent for long


WHOLE: Final = 1000
"""Lines of a step shown without limit; Prefect stores each in its database. The transcript has everything."""
SAMPLE_EVERY: Final = 10.0
"""Seconds between lines that are shown beyond that."""
LONGEST: Final = 1000
"""Characters of a line."""
SILENCE: Final = 60.0
"""Seconds of silence after which a step is reported to be still running."""

Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


class LogProgress:
    """The port `Progress` for one step of a flow run; called from several threads."""

    def __init__(self, logger: Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._now = now
        self._lock = threading.Lock()
        self._secrets = secret_values(given_environment())
        self._began = self._heard = self._shown = now()
        self._lines = self._left_out = 0

    def note(self, text: str) -> None:
        """Log one line; of very many lines, only one at intervals."""
        with self._lock:
            self._heard = self._now()
            self._lines += 1
            if self._lines > WHOLE and self._heard - self._shown < SAMPLE_EVERY:
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        if left_out:
            self._say(f"... {left_out} more lines are in the transcript alone")
        self._say(without_secrets(text, self._secrets)[:LONGEST])

    def say_if_silent(self) -> None:
        """Log for how long the step has been running, if nothing else was shown for a while."""
        now = self._now()
        if now - self._shown < SILENCE:
            return
        quiet = "" if self._heard == self._began else f", the last line came {_span(now - self._heard)} ago"
        self._say(f"at work for {_span(now - self._began)}{quiet}")

    def _say(self, text: str) -> None:
        self._shown = self._now()
        self._logger.info(text)


@asynccontextmanager
async def never_silent(progress: LogProgress, every: float = SILENCE / 4) -> AsyncIterator[None]:
    """For the block, have *progress* report a silent step as still running; checked *every* so many seconds."""

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            progress.say_if_silent()

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


def _span(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    return f"{minutes} min" if minutes else f"{rest} s"


T = TypeVar("T")

ROW: Final = 120
"""Characters of a row's title on the page of a run."""
REFUSED = "Refused"
"""The state of a refused answer or step; its message gives the reason."""
WAIT_FOR_DRIVER = 900.0
"""Seconds to wait for a command that holds the driver lock before the run gives up."""
WAIT_FOR_STEP = 86_400.0
"""Seconds that an answer waits for the step at work, such as an attempt of another issue's agent."""


@task(name="run", cache_policy=NO_CACHE, persist_result=False)
async def run_stage(repository: str, step: Step, loop_id: str | None) -> State[None]:
    """One attempt of the coding agent, or the recovery of one that was cut off."""
    return await _take(repository, step, loop_id)


@task(name="verify", cache_policy=NO_CACHE, persist_result=False)
async def verify_stage(repository: str, step: Step, loop_id: str | None) -> State[None]:
    """The repository's own checks at the task's commit, and its publication; Failed if they do not pass."""
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
async def watch_issue(watch: Callable[[], Awaitable[T]]) -> T:
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
            with between_steps(app, f"issue-{number}, answer", wait_seconds=WAIT_FOR_STEP):
                answer_issue(app, number, answer, loop_id)
        except NOT_TAKEN as error:
            return _refused(error)
        mirror(app)
        return Completed(name="Recorded", message=f"by {answer.by}")

    return await in_thread(record)


@task(name="request", cache_policy=NO_CACHE, persist_result=False)
async def request_stage(repository: str, key: str) -> State[None]:
    """What a member of the team is asked, and the comment with its answer; Failed if there is no answer."""
    progress = LogProgress(get_run_logger())

    def take(cancel: Cancellation) -> State[None]:
        app = open_here(repository, cancel, progress=progress)
        try:
            return _ended(request_ending(answer_request(app, key, wait_seconds=WAIT_FOR_STEP)))
        except Cancelled:
            raise
        except IrontreeError as error:
            return _refused(error)

    async with never_silent(progress):
        return await in_thread(take)


def open_here(
    repository: str,
    cancel: Cancellation | None = None,
    *,
    channel: str = "flow",
    actor: str = "irontree",
    progress: LogProgress | None = None,
) -> App:
    """The ports of *repository* on behalf of the current flow run; progress goes to its log."""
    origin = Origin(actor=actor, channel=channel, flow_run=flow_run.get_id())
    return app_of(repository, origin=origin, cancel=cancel, progress=progress or LogProgress(get_run_logger()))


async def _take(repository: str, step: Step, loop_id: str | None) -> State[None]:
    progress = LogProgress(get_run_logger())

    def take(cancel: Cancellation) -> State[None]:
        app = open_here(repository, cancel, progress=progress)
        try:
            give_way(app)
            state = perform(app, step, loop_id, wait_seconds=WAIT_FOR_DRIVER)
        except Cancelled:
            raise
        except IrontreeError as error:
            return _refused(error)
        mirror(app)
        return _ended(ending_of(app, app.log.read(state.issue_number).records[-1]))

    async with never_silent(progress):
        return await in_thread(take)


def _ended(ending: Ending) -> State[None]:
    """The state of a step's task run: a failure is red on the run's page, and its row there says why.

    Nothing is raised, and the flow goes on: what comes next is decided from the log.
    """
    why = without_secrets(ending.why, secret_values(given_environment()))
    if not ending.failed:
        return Completed(name=ending.name, message=why)
    logging.getLogger("prefect.task_runs").addFilter(SAID_ONCE)
    if (context := TaskRunContext.get()) is not None:
        # The engine tells the server this name together with the state.
        context.task_run.name = f"{context.task_run.name}: {ending.name[0].lower()}{ending.name[1:]}: {why}"[:ROW]
    return Failed(name=ending.name, message=why)


class _SaidOnce(logging.Filter):
    """Drops Prefect's line about a failed state that a task returned: the one that follows says the same."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every other record."""
        return not record.getMessage().startswith("Task run failed with state: ")


SAID_ONCE: Final = _SaidOnce()


def _refused(error: IrontreeError) -> State[None]:
    return Completed(name=REFUSED, message=in_words(error))


def _known(app: App, task_key: str) -> int:
    """The sequence of the issue's newest event before a step."""
    state = read_world(app).states.get(task_key)
    return state.sequence if state else 0
