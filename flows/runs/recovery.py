"""Which runs are alive (a kernel lock each, R3), which should exist according to the log, and starting those."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from typing import Final, ParamSpec

from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import Pause
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from irontree.app import App
from irontree.domain.decide import is_due
from irontree.domain.state import TaskState
from irontree.errors import Busy, Cancelled, IrontreeError, LogDamaged, Refused, ServerUnavailable, in_words
from irontree.flows.runs.forms import open_question
from irontree.flows.runs.needs_you import show_needs_you
from irontree.flows.runs.requests import start_requests
from irontree.flows.runs.runs import (
    RunInfo,
    connect,
    crashed,
    deployment_id,
    ensure_run,
    find_run,
    find_runs,
    issue_key,
    issue_tag,
    loop_key,
    mark_ended,
    reschedule,
    supersede,
    suspended_runs,
    tags,
    taken_up,
    url_for,
)
from irontree.flows.server.programs import begin
from irontree.ports import Lock
from irontree.services.answers.approve import names_issues, standing_of
from irontree.services.execution.steps import next_step
from irontree.services.loops.choice import may_go_on
from irontree.services.loops.loop import read_loop, read_loops
from irontree.services.questions.questions import Question, question_of_loop, questions_beside
from irontree.services.record import read_world
from irontree.services.views.overview import title_of
from irontree.store.layout import Layout
from irontree.store.locks import remove_if_free
from irontree.tasks.artifacts import mirror

# --- The pages of a loop's issues, and the runs of issues and loops


def pages_of_issues(app: App, loop_id: str) -> Mapping[int, str]:
    """The pages of the existing runs of this loop's issues, by issue number; empty without a server."""
    states = read_world(app).states
    keys = {issue_key(app, states[key]): states[key] for key in read_loop(app, loop_id).keys if key in states}
    try:
        with connect() as client:
            found = find_runs(client, list(keys))
    except ServerUnavailable:
        return {}
    return {keys[key].issue_number: url_for(run.id) for key, run in found.items()}


def row_title(app: App, state: TaskState) -> str:
    """The title of an issue's row on the loop's page: `#3 Split an expense`."""
    return f"#{state.issue_number} {title_of(read_world(app), state.task_key)}"


def start_issue(app: App, state: TaskState, loop_id: str | None) -> RunInfo:
    """Ensure that the run of this issue is waiting, working or asking; one run for the issue's whole life."""
    with connect() as client:
        return ensure_run(
            client,
            deployment_id(client, "issue", app.repository.id),
            key=issue_key(app, state),
            parameters={
                "repository": str(app.repository.root),
                "number": state.issue_number,
                "loop_id": loop_id,
            },
            name=row_title(app, state),
            tags=tags(app, issue_tag(state.issue_number)),
        )


def start_loop(app: App, loop_id: str) -> RunInfo:
    """Ensure that a run drives this stretch of the loop; a second call returns the same run."""
    loop = read_loop(app, loop_id)
    with connect() as client:
        return ensure_run(
            client,
            deployment_id(client, "loop", app.repository.id),
            key=loop_key(app, loop_id, loop.sequence),
            parameters={"repository": str(app.repository.root), "loop_id": loop_id},
            name=f"loop {loop_id}",
            tags=tags(app, f"loop:{loop_id}"),
        )


# --- How a flow run ends when its work is refused


Parameters = ParamSpec("Parameters")
FlowBody = Callable[Parameters, Awaitable[State[None]]]


def waits_if_refused(body: FlowBody[Parameters]) -> FlowBody[Parameters]:
    """End the run as `Waiting` if an issue or loop cannot continue now; it is resumed according to the log."""
    return _ends_if_refused(body, lambda message: Completed(name="Waiting", message=message))


def fails_if_refused(body: FlowBody[Parameters]) -> FlowBody[Parameters]:
    """End the run as `Failed`, without a traceback, if its request cannot be carried out."""
    return _ends_if_refused(body, lambda message: Failed(message=message))


def _ends_if_refused(body: FlowBody[Parameters], end: Callable[[str], State[None]]) -> FlowBody[Parameters]:
    @wraps(body)
    async def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> State[None]:
        try:
            return await body(*args, **kwargs)
        except Cancelled:
            raise
        except IrontreeError as error:
            return end(in_words(error))

    return run


# --- Liveness: each flow run's process holds a kernel lock (R3)


FLOW_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of Prefect's run ids; other files there are held by processes that serve the repository, and stay."""
LOOK_EVERY = 0.2
"""Seconds."""
AT_WORK_ALREADY = (
    "A process is at work on this run already: this one waits until that has ended. "
    "A state that is set by hand (Suspend, Change state) does not stop work; the button Cancel does."
)


@asynccontextmanager
async def hold_liveness(app: App) -> AsyncIterator[None]:
    """Hold this flow run's lock for the block, after telling whoever started the process that its flow begins.

    The page of open questions is kept: when the block begins after an answer, and when it ends with a question.

    A run whose state was changed by hand is started while its first process still lives: the second process waits
    for the first to end. Were it to end earlier, it would end the run of the first.
    """
    begin()
    lock = app.alive(str(flow_run.get_id()))
    waits = partial(get_run_logger().warning, AT_WORK_ALREADY)
    async with hold_liveness_lock(lock, f"flow run {flow_run.get_name()}", waits=waits):
        if _has_asked():
            await asyncio.to_thread(show_needs_you, app)
        try:
            yield
        except Pause:
            await asyncio.to_thread(show_needs_you, app)
            raise


def _has_asked() -> bool:
    """Whether this run was suspended before: what it asked is open no more."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.empirical_policy.pause_keys)


@asynccontextmanager
async def hold_liveness_lock(lock: Lock, what: str, *, waits: Callable[[], None]) -> AsyncIterator[None]:
    """Hold *lock* for the block, visibly to others: its file may be removed between our opening and locking it.

    Waits while another process has it, without blocking the event loop; calls *waits* once before.
    """
    told = False
    while True:
        with ExitStack() as held:
            if _is_held(held, lock, what):
                yield
                return
        if not told and lock.holder() is not None:
            waits()
            told = True
        await asyncio.sleep(LOOK_EVERY)


def _is_held(held: ExitStack, lock: Lock, what: str) -> bool:
    """Whether *held* now has the lock on the file that other processes see."""
    try:
        held.enter_context(lock.hold(what))
    except Busy:
        return False
    holder = lock.holder()
    return holder is not None and holder.pid == os.getpid()


def tidy(app: App) -> int:
    """Remove the lock files of flow runs that no process holds; returns their number."""
    folder = Layout(app.repository.root).alive("any").parent
    files = [path for path in folder.glob("*") if FLOW_RUN.fullmatch(path.name)]
    return sum(remove_if_free(path) for path in files)


# --- Recovery: starting the runs that should exist according to the log (rulings, Crashes)


STARTING = timedelta(seconds=120)
SOMEBODY_STARTS: Final = {"PENDING": STARTING, "RUNNING": STARTING, "CANCELLING": STARTING}
"""How long a run may be in a state without its process's lock: one that was just started has not taken it yet."""
WORKERS_START: Final = {"PENDING": STARTING}
"""The same if only we serve the repository, except for workers that a configured server may have."""
NOBODY_STARTS: Final[Mapping[str, timedelta]] = {}
"""The same on the private server, if only we serve the repository or have just stopped serving it."""
GOING: Final = {
    "SCHEDULED": "goes on",
    "PENDING": "goes on",
    "RUNNING": "is at work",
    "PAUSED": "waits for a person",
}
"""What a run does, in words for a log."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """What recovery did, one line each."""

    dead: tuple[str, ...]
    approving: tuple[str, ...]
    going: tuple[str, ...]
    closed: tuple[str, ...]
    asking: tuple[str, ...]


def take_up_all(app: App, *, asks_forge: bool = True) -> TakenUp:
    """Mark dead runs, start those the log calls for, close obsolete forms (approvals of issues only if *asks_forge*).

    This is all there is to do after a crash, a restart or a deleted database; the order matters.
    """
    return TakenUp(
        dead=mark_dead_runs(app),
        approving=go_on_approving(app),
        going=start_what_waits(app),
        closed=tuple(
            f"{run.name}: its question is asked no more" for run in wake_overtaken(app, asks_forge=asks_forge)
        ),
        asking=start_requests(app),
    )


def mark_dead_runs(app: App, *, grace: Mapping[str, timedelta] = SOMEBODY_STARTS) -> tuple[str, ...]:
    """Mark runs without a living process as crashed; returns one line each.

    A run is alive as long as its process holds its lock (R3). *grace*, by state, is how long it may lack the lock.
    """
    with connect() as client:
        found = taken_up(client, app.repository.id)
        dead = [run for run in found if _is_dead(app, run, grace.get(run.state, timedelta(0)))]
        for run in dead:
            mark_ended(client, run, "its process is gone")
    return tuple(f"{run.name}: its process is gone" for run in dead)


def start_what_waits(app: App) -> tuple[str, ...]:
    """Ensure that each open loop is driven or asking; returns a line for each that is waiting, working or asking.

    If a user cancelled the run that would do so, it stays cancelled until a user resumes the loop.
    """
    loop_ids = [loop.id for loop in read_loops(app)[0]]  # an unreadable loop must not stop the others (R13)
    found = ((loop_id, take_up(app, loop_id)) for loop_id in loop_ids if not _was_cancelled(app, loop_id))
    return tuple(_doing(loop_id, run) for loop_id, run in found if run)


def _doing(loop_id: str, run: RunInfo) -> str:
    """What drives the loop, or asks for it: its own run, or an issue's, which is named."""
    issue = f": {run.name}" if "number" in run.parameters else ""
    return f"loop {loop_id}{issue} {GOING.get(run.state, f'is {run.state_name}')}"


def go_on_approving(app: App) -> tuple[str, ...]:
    """Restart approvals of documents whose process died; returns one line each.

    The log does not have them before they are approved: only the run knows its document and the answer to its form.
    """
    with connect() as client:
        died = crashed(client, app.repository.id, "intake")
        for run in died:
            reschedule(client, run.id)
    return tuple(f"{run.name}: starts again" for run in died)


def _was_cancelled(app: App, loop_id: str) -> bool:
    """Whether a user cancelled the run of this loop, or of the issue whose question it waits for."""
    loop = read_loop(app, loop_id)
    if not loop.is_open:
        return False
    driving, state = newest_run(app, loop_id), read_world(app).states.get(loop.entity.halt_at_task_key or "")
    if state is None or not isinstance(next_step(app, state.issue_number, loop_id), Question):
        return driving is not None and driving.cancelled
    with connect() as client:
        asking = find_run(client, issue_key(app, state))
    return asking is not None and asking.cancelled


def take_up(app: App, loop_id: str) -> RunInfo | None:
    """Ensure that the right run of this loop, according to the log, is working or asking; `None` if the loop has ended.

    Safe to call at any time: runs in progress are left alone. Also `None` while another loop is running here
    (R19).
    """
    loop = read_loop(app, loop_id)
    if not loop.is_open:
        return None
    have_beside_asking(app, loop_id)
    state = read_world(app).states.get(loop.entity.halt_at_task_key or "")
    if state:
        found = next_step(app, state.issue_number, loop_id)
        if not isinstance(found, Question):
            wake(app, state.issue_number)
        elif not may_go_on(app, loop_id):
            return have_asking(app, state, found)
    elif (asks := question_of_loop(app, loop_id)) and (run := newest_run(app, loop_id)):
        return _have_asked(app, run, asks)
    if (active := app.lease.holder()) is None:
        return start_loop(app, loop_id)
    return newest_run(app, loop_id) if active.what == loop_id else None


def wake(app: App, issue_number: int) -> tuple[RunInfo, ...]:
    """Restart the suspended runs of this issue, whose question was answered elsewhere, to read the log again.

    This may include the run of an earlier revision, which asked for the approval of this one.
    """
    with connect() as client:
        suspended = suspended_runs(client, app.repository.id, issue_tag(issue_number))
        return tuple(reschedule(client, run.id) for run in suspended)


def wake_overtaken(app: App, *, asks_forge: bool = True) -> tuple[RunInfo, ...]:
    """Restart or end every suspended run whose question the log does not ask (any more).

    This closes obsolete forms: their loop was cancelled, their task skipped, their question answered. An approval
    given elsewhere ends its run here; approvals of issues are checked only with *asks_forge*.
    """
    with connect() as client:
        suspended = suspended_runs(client, app.repository.id)
        looked_at = suspended if asks_forge else [run for run in suspended if not _asks_of_issues(app, run)]
        asking = [(run, open_question(client, run.id)) for run in looked_at]
        settled = tuple(ended for run, form in asking if form and (ended := _settle(app, client, run, form.key)))
    if settled:
        show_needs_you(app)
    return settled


def _asks_of_issues(app: App, run: RunInfo) -> bool:
    return "document" in run.parameters and names_issues(app, str(run.parameters["document"]))


def _settle(app: App, client: SyncPrefectClient, run: RunInfo, key: str) -> RunInfo | None:
    """Restart or end the run if its question *key* is not asked any more; `None` if it still is."""
    if "document" not in run.parameters:
        return None if _is_asked(app, run, key) else reschedule(client, run.id)
    match standing_of(app, str(run.parameters["document"]), key, str(run.parameters.get("branch") or "")):
        case "settled":
            return supersede(client, run.id, "approved elsewhere: `irontree status` shows what became of it")
        case "changed":
            return reschedule(client, run.id)
        case "open":
            return None


def _is_asked(app: App, run: RunInfo, key: str) -> bool:
    """Whether the log still asks what this run shows."""
    given = run.parameters
    number = given.get("number")
    try:
        found = next_step(app, number, given.get("loop_id")) if number else question_of_loop(app, given["loop_id"])
    except (Refused, LogDamaged):
        return False
    return isinstance(found, Question) and key.startswith(found.key)


def newest_run(app: App, loop_id: str) -> RunInfo | None:
    """The newest run of this loop; None after Prefect's database was deleted."""
    keys = [loop_key(app, loop_id, n) for n in range(read_loop(app, loop_id).sequence, 0, -1)]
    with connect() as client:
        found = find_runs(client, keys)
    return next((found[key] for key in keys if key in found), None)


def have_beside_asking(app: App, loop_id: str) -> None:
    """Ensure that every issue asks that lets other work of this loop go on, unless a user cancelled its run (R17)."""
    world = read_world(app)
    asking = {
        issue_key(app, state): (state, question)
        for question in questions_beside(world, read_loop(app, loop_id))
        if (state := world.find(question.number))
    }
    if not asking:
        return
    with connect() as client:
        runs = find_runs(client, list(asking))
    for key, (state, question) in asking.items():
        if key not in runs or not runs[key].cancelled:
            have_asking(app, state, question)


def have_asking(app: App, state: TaskState, question: Question) -> RunInfo:
    """Ensure that the issue's run asks this question."""
    return _have_asked(app, start_issue(app, state, question.loop_id), question)


def _have_asked(app: App, run: RunInfo, question: Question) -> RunInfo:
    """Ensure that only this run asks the question: the forms of two runs would be answered separately.

    A run is restarted if it is suspended with an earlier question, has ended, or died before storing its form; also
    if time has answered its question, so that it records that.
    """
    if run.final:
        with connect() as client:
            return reschedule(client, run.id)
    if run.state != "PAUSED" or app.alive(str(run.id)).holder() is not None:
        return run
    due = is_due(question.timer, app.clock.now())
    with connect() as client:
        asked = open_question(client, run.id)
        stays = asked and asked.key.startswith(question.key) and not due
        return run if stays else reschedule(client, run.id)


def _is_dead(app: App, run: RunInfo, grace: timedelta) -> bool:
    if app.alive(str(run.id)).holder() is not None:
        return False
    return run.since is None or datetime.now(UTC) - run.since >= grace


# --- After an answer that was not given in the form


def start_again(app: App, issue_number: int) -> str | None:
    """Restart the issue's suspended run and the loop that waits for the answer; returns what was started, in words.

    The answer is in the log already. Raises ServerUnavailable if the server does not answer.
    """
    mirror(app)
    state = read_world(app).state(issue_number)
    woken = wake(app, issue_number)
    for loop in read_loops(app)[0]:
        here = loop.entity.status == "halted" and loop.entity.halt_at_task_key == state.task_key
        if here or (state.task_key in loop.keys and may_go_on(app, loop.id)):
            run = take_up(app, loop.id)
            return f"loop {loop.id} goes on: {url_for(run.id)}" if run else None
    return f"its run goes on: {url_for(woken[0].id)}" if woken else None


def close_overtaken(app: App) -> None:
    """End suspended runs whose loop was cancelled or task skipped; the janitor handles those that this cannot."""
    with suppress(ServerUnavailable):
        wake_overtaken(app)
