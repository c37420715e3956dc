"""A flow run says by a kernel lock that its process lives (R3), and how it ends when something refuses to go on."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial, wraps
from typing import ParamSpec

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from irontree.app import App
from irontree.errors import Busy, Cancelled, IrontreeError, in_words
from irontree.flows.server.background import end_with_runner
from irontree.ports import Lock
from irontree.store.layout import Layout
from irontree.store.locks import remove_if_free

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


# --- A flow run says by a kernel lock that its process lives (ruling R3)


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
