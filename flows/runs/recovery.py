"""Which runs are alive (a kernel lock each, R3), which should exist by what the log says, and how these are started."""

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
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from irontree.app import App
from irontree.domain.decide import is_due
from irontree.domain.state import TaskState
from irontree.errors import Busy, Cancelled, IrontreeError, LogDamaged, Refused, ServerUnavailable, in_words
from irontree.flows.runs.runs import (
    RunInfo,
    connect,
    crashed,
    deployment,
    ensure_run,
    find_run,
    find_runs,
    issue_key,
    issue_tag,
    loop_key,
    mark_ended,
    open_question,
    reschedule,
    supersede,
    suspended_runs,
    tags,
    taken_up,
    url_for,
)
from irontree.flows.server.connection import end_with_runner
from irontree.ports import Lock
from irontree.services.answers.approve import names_issues, standing_of
from irontree.services.execution.steps import catch_up, next_step
from irontree.services.loops.loop import loop_of, open_loops, read_loop, read_loops
from irontree.services.questions.questions import Question, question_of_loop
from irontree.services.record import read_world
from irontree.services.views.overview import title_of
from irontree.store.layout import Layout
from irontree.store.locks import remove_if_free
from irontree.tasks.artifacts import mirror

# --- Where a loop's issues are shown, and what it says of them on its own page


def pages_of_issues(app: App, loop_id: str) -> Mapping[int, str]:
    """The pages of the runs of this loop's issues, by issue number, as far as there are any; none without a server."""
    states = read_world(app).states
    keys = {issue_key(app, states[key]): states[key] for key in read_loop(app, loop_id).keys if key in states}
    try:
        with connect() as client:
            found = find_runs(client, list(keys))
    except ServerUnavailable:
        return {}
    return {keys[key].issue_number: url_for(run.id) for key, run in found.items()}


def row_title(app: App, state: TaskState) -> str:
    """The row of an issue on the loop's page: `#3 Split an expense`."""
    return f"#{state.issue_number} {title_of(read_world(app), state.task_key)}"


def start_issue(app: App, state: TaskState, loop_id: str | None) -> RunInfo:
    """Have the run of this issue waiting, working or asking; the same run for the issue's whole life."""
    with connect() as client:
        return ensure_run(
            client,
            deployment("issue", app),
            key=issue_key(app, state),
            parameters={
                "repository": str(app.repository.root),
                "number": state.issue_number,
                "loop_id": loop_id,
            },
            name=row_title(app, state),
            tags=tags(app, issue_tag(state.issue_number)),
        )


def start_own_run(app: App, number: int, loop_id: str | None) -> RunInfo:
    """Have the issue's own run, for one that was made by hand: in the loop that it names, or that has the issue."""
    state = read_world(app).state(number)
    return start_issue(app, state, loop_id or loop_of(open_loops(app), state.task_key))


def start_loop(app: App, loop_id: str) -> RunInfo:
    """Have a run that drives this stretch of the loop; the same one for whoever asks twice."""
    loop = read_loop(app, loop_id)
    with connect() as client:
        return ensure_run(
            client,
            deployment("loop", app),
            key=loop_key(app, loop_id, loop.sequence),
            parameters={"repository": str(app.repository.root), "loop_id": loop_id},
            name=f"loop {loop_id}",
            tags=tags(app, f"loop:{loop_id}"),
        )


# --- How a flow run ends when something refuses to go on


Parameters = ParamSpec("Parameters")
FlowBody = Callable[Parameters, Awaitable[State[None]]]


def waits_if_refused(body: FlowBody[Parameters]) -> FlowBody[Parameters]:
    """End the run as `Waiting` when an issue or a loop cannot go on now; it is taken up again by what the log says."""
    return _ends_if_refused(body, lambda message: Completed(name="Waiting", message=message))


def fails_if_refused(body: FlowBody[Parameters]) -> FlowBody[Parameters]:
    """End the run as `Failed`, without a traceback, when what it was asked to do cannot be done."""
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


# --- A flow run says by a kernel lock that its process lives (R3)


FLOW_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How Prefect names runs; other files there are held by who serves the repository, and stay."""
LOOK_EVERY = 0.2
"""Seconds."""
AT_WORK_ALREADY = (
    "A process is at work on this run already: this one waits until that has ended. "
    "A state that is set by hand (Suspend, Change state) does not stop work; the button Cancel does."
)


@asynccontextmanager
async def hold_liveness(app: App) -> AsyncIterator[None]:
    """Hold this flow run's lock for the block, and end with the runner that started the process.

    A run whose state somebody changed by hand is started beside the process that it still has: the second waits as
    long as that lives. Were it to end before, it would end the run of the first.
    """
    end_with_runner()
    lock = app.alive(str(flow_run.get_id()))
    waits = partial(get_run_logger().warning, AT_WORK_ALREADY)
    async with hold_liveness_lock(lock, f"flow run {flow_run.get_name()}", waits=waits):
        yield


@asynccontextmanager
async def hold_liveness_lock(lock: Lock, what: str, *, waits: Callable[[], None]) -> AsyncIterator[None]:
    """Hold *lock* for the block, and be seen to: its file may be tidied away between our opening and our locking it.

    Waits while another process has it, calls *waits* once before, and leaves the event loop to others.
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
    """Whether *held* has the lock now, in the file that others look at."""
    try:
        held.enter_context(lock.hold(what))
    except Busy:
        return False
    holder = lock.holder()
    return holder is not None and holder.pid == os.getpid()


def tidy(app: App) -> int:
    """Remove the lock files of flow runs that no process holds; how many there were."""
    folder = Layout(app.repository.root).alive("any").parent
    files = [path for path in folder.glob("*") if FLOW_RUN.fullmatch(path.name)]
    return sum(remove_if_free(path) for path in files)


# --- From what the log says should be going on to the runs that should exist (rulings, Crashes)


STARTING = timedelta(seconds=120)
SOMEBODY_STARTS: Final = {"PENDING": STARTING, "RUNNING": STARTING, "CANCELLING": STARTING}
"""How long a run may be in a state without the lock of its process: one that was just started has not taken it yet."""
WORKERS_START: Final = {"PENDING": STARTING}
"""The same for who serves a repository alone, but for the workers that a configured server may have."""
NOBODY_STARTS: Final[Mapping[str, timedelta]] = {}
"""The same for who has the private server, and serves the repository alone or has just stopped to."""
GOING: Final = {
    "SCHEDULED": "goes on",
    "PENDING": "goes on",
    "RUNNING": "is at work",
    "PAUSED": "waits for a person",
}
"""What a run does, in words for who reads a log."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """What was done to have going what should be, a line each."""

    dead: tuple[str, ...]
    approving: tuple[str, ...]
    going: tuple[str, ...]
    closed: tuple[str, ...]


def take_up_all(app: App, *, asks_forge: bool = True) -> TakenUp:
    """Find the runs whose process died, and have going and asked what the log says, and nothing else (*asks_forge*).

    The one thing to do after a crash, a restart or a deleted database; the order matters.
    """
    return TakenUp(
        dead=mark_dead_runs(app),
        approving=go_on_approving(app),
        going=start_what_waits(app),
        closed=tuple(
            f"{run.name}: its question is asked no more" for run in wake_overtaken(app, asks_forge=asks_forge)
        ),
    )


def mark_dead_runs(app: App, *, grace: Mapping[str, timedelta] = SOMEBODY_STARTS) -> tuple[str, ...]:
    """Say of runs that no living process has that they crashed; what was said, one line each.

    A run is alive as long as its process holds its lock (R3). *grace* is how long it may do without.
    """
    with connect() as client:
        found = taken_up(client, app.repository.id)
        dead = [run for run in found if _is_dead(app, run, grace.get(run.state, timedelta(0)))]
        for run in dead:
            mark_ended(client, run, "its process is gone")
    return tuple(f"{run.name}: its process is gone" for run in dead)


def put_in_order(app: App, who: str) -> None:
    """Settle and deliver what a crash left undone; who holds the driver lock now has done that already (R9, R11)."""
    with suppress(Busy), app.driver.hold(f"{who}, catch up"):
        catch_up(app)


def start_what_waits(app: App) -> tuple[str, ...]:
    """Have each open loop driven or asking; what is now waiting, working or asking, one line each.

    Where a person cancelled the run that would do it, that holds until a person resumes the loop.
    """
    loop_ids = [loop.id for loop in read_loops(app)[0]]  # one that cannot be read keeps no other from going on (R13)
    found = ((loop_id, take_up(app, loop_id)) for loop_id in loop_ids if not _was_cancelled(app, loop_id))
    return tuple(f"loop {loop_id}{_of_issue(run)} {_doing(run)}" for loop_id, run in found if run)


def _of_issue(run: RunInfo) -> str:
    """Which issue, where it is the issue's run; the loop's own needs no name."""
    return f": {run.name}" if "number" in run.parameters else ""


def _doing(run: RunInfo) -> str:
    return GOING.get(run.state, f"is {run.state_name}")


def go_on_approving(app: App) -> tuple[str, ...]:
    """Start the approvals of documents again whose process died; one line each.

    No log tells of them before they are approved: only the run knows its document, and the answer to its form.
    """
    with connect() as client:
        died = crashed(client, app.repository.id, "intake")
        for run in died:
            reschedule(client, run.id)
    return tuple(f"{run.name}: starts again" for run in died)


def _was_cancelled(app: App, loop_id: str) -> bool:
    """Whether a person cancelled the run of this loop, or that of the issue whose question it waits for."""
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
    """Have the right run of this loop working or asking, by what the log says; None if the loop has ended.

    Safe to call at any time, by anybody: what is going on already is left alone. None too while another loop is at
    work here (R19).
    """
    loop = read_loop(app, loop_id)
    if not loop.is_open:
        return None
    state = read_world(app).states.get(loop.entity.halt_at_task_key or "")
    if state:
        found = next_step(app, state.issue_number, loop_id)
        if isinstance(found, Question):
            return have_asking(app, state, found)
        wake(app, state.issue_number)
    elif (asks := question_of_loop(app, loop_id)) and (run := newest_run(app, loop_id)):
        return _have_asked(app, run, asks)
    if (active := app.lease.holder()) is None:
        return start_loop(app, loop_id)
    return newest_run(app, loop_id) if active.what == loop_id else None


def wake(app: App, issue_number: int) -> tuple[RunInfo, ...]:
    """Let what is suspended for this issue look at the log again: the question was answered elsewhere.

    That may be the run of an earlier revision, which asked for the approval of this one.
    """
    with connect() as client:
        suspended = suspended_runs(client, app.repository.id, issue_tag(issue_number))
        return tuple(reschedule(client, run.id) for run in suspended)


def wake_overtaken(app: App, *, asks_forge: bool = True) -> tuple[RunInfo, ...]:
    """Let every suspended run look at the log again whose question the log does not ask (any more).

    So no form stays open that nobody waits for: its loop was cancelled, its task skipped, its question answered. An
    approval that was given elsewhere ends its run here; that of issues is looked at only if it *asks_forge*.
    """
    with connect() as client:
        suspended = suspended_runs(client, app.repository.id)
        looked_at = suspended if asks_forge else [run for run in suspended if not _asks_of_issues(app, run)]
        asking = [(run, open_question(client, run.id)) for run in looked_at]
        return tuple(ended for run, form in asking if form and (ended := _settle(app, client, run, form.key)))


def _asks_of_issues(app: App, run: RunInfo) -> bool:
    return "document" in run.parameters and names_issues(app, str(run.parameters["document"]))


def _settle(app: App, client: SyncPrefectClient, run: RunInfo, key: str) -> RunInfo | None:
    """Have the run look again, or end, if what it asks as *key* is not the question any more; None if it still is."""
    if "document" not in run.parameters:
        return None if _is_asked(app, run, key) else reschedule(client, run.id)
    match standing_of(app, str(run.parameters["document"]), key):
        case "settled":
            return supersede(client, run.id, "approved elsewhere: `irontree status` shows what became of it")
        case "changed":
            return reschedule(client, run.id)
        case "open":
            return None


def _is_asked(app: App, run: RunInfo, key: str) -> bool:
    """Whether the log asks what this run shows."""
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


def have_asking(app: App, state: TaskState, question: Question) -> RunInfo:
    """Have the issue's run ask this question."""
    return _have_asked(app, start_issue(app, state, question.loop_id), question)


def _have_asked(app: App, run: RunInfo, question: Question) -> RunInfo:
    """Have this run ask the question, and no other: each would be answered for itself.

    One that is suspended with an earlier one starts again, and so does one that ended, or whose process died before
    it had stored its form; and one whose question time has answered: it records that.
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


# --- After an answer that came from elsewhere than the form


def start_again(app: App, issue_number: int) -> str | None:
    """Start the issue's suspended run again, and the loop that halted there; what was started, in words.

    The answer is in the log already. Raises ServerUnavailable if the server does not answer.
    """
    mirror(app)
    state = read_world(app).state(issue_number)
    woken = wake(app, issue_number)
    for loop in read_loops(app)[0]:
        if loop.entity.status == "halted" and loop.entity.halt_at_task_key == state.task_key:
            run = take_up(app, loop.id)
            return f"loop {loop.id} goes on: {url_for(run.id)}" if run else None
    return f"its run goes on: {url_for(woken[0].id)}" if woken else None


def close_overtaken(app: App) -> None:
    """Let suspended runs end whose loop was cancelled or whose task was skipped; the janitor does what this cannot."""
    with suppress(ServerUnavailable):
        wake_overtaken(app)
