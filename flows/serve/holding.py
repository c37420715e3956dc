"""Hold the right to serve a repository's flows, and leave no run behind that only seems to go on.

Importing this module imports Prefect: adopt the settings first (`irontree.flows.server.connection.adopt`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from irontree.app import App
from irontree.errors import IrontreeError
from irontree.flows.runs.recovery import NOBODY_STARTS, WORKERS_START, mark_dead_runs, tidy
from irontree.flows.runs.runs import connect, taken_up
from irontree.services.views.overview import SERVING

FREE_SECONDS: Final = 2.0
LOOK_EVERY: Final = 0.2


@contextmanager
def held(app: App, who: str, *, private: bool) -> Iterator[None]:
    """Hold the right to serve *app*'s flows for the block; raises Busy if another process has it.

    The block must end the processes that it starts: their unfinished runs are then marked as crashed.
    """
    with app.alive(SERVING).hold(who):
        clear_up(app, private=private)
        try:
            yield
        finally:
            tell_what_became(app, private=private)


def clear_up(app: App, *, private: bool) -> None:
    """Do away with what dead processes left; whoever serves *app* holds the SERVING lock."""
    tidy(app)
    mark_dead(app, private=private)


def mark_dead(app: App, *, private: bool) -> None:
    """Mark runs without a process as crashed; whoever serves *app* holds the SERVING lock.

    Only workers of a configured server may be starting a run beside us.
    """
    mark_dead_runs(app, grace=NOBODY_STARTS if private else WORKERS_START)


def at_rest(app: App) -> bool:
    """Whether no process works on a run of this repository."""
    with connect() as client:
        return not taken_up(client, app.repository.id)


def tell_what_became(app: App, *, private: bool) -> None:
    """Mark the runs of killed processes as crashed, retrying until each has released its lock."""
    with suppress(IrontreeError):  # the server is away, or the folder gone: the right is given up all the same
        deadline = time.monotonic() + FREE_SECONDS
        mark_dead(app, private=private)
        while not at_rest(app) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
            mark_dead(app, private=private)
