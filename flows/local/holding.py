"""What goes with serving one repository's flows, whoever does it: alone, and leaving nothing that seems to go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.errors import IrontreeError
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.living import tidy
from irontree.flows.lifecycle.taking_up import NOBODY_STARTS, WORKERS_START, mark_dead_runs
from irontree.flows.local.server_state import ServerState
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.overview import SERVING

FREE_SECONDS: Final = 2.0
DRIVER_SECONDS: Final = 10.0
LOOK_EVERY: Final = 0.2


@contextmanager
def held(app: App, who: str, *, private: bool) -> Iterator[None]:
    """Be the one who serves *app*'s flows for the block; raises Busy if another process is.

    The block has to end the processes that it starts: what they had is then said to have crashed.
    """
    with app.alive(SERVING).hold(who):
        tidy(app)
        mark_dead(app, private=private)
        try:
            yield
        finally:
            with suppress(IrontreeError):  # the server is away, or the folder gone: the lock is free all the same
                _tell_what_became(app, private=private)


def mark_dead(app: App, *, private: bool) -> None:
    """Say of runs without a process that they crashed; the caller holds the lock of who serves.

    Only workers of a configured server may be starting a run beside us.
    """
    mark_dead_runs(app, grace=NOBODY_STARTS if private else WORKERS_START)


def at_rest(app: App) -> bool:
    """Whether no process works on a run of this repository."""
    with runs.connect() as client:
        return not runs.taken_up(client, app.repository.id)


def settle(app: App) -> None:
    """Settle by evidence what processes left that were ended in the middle of a step (rulings R11, R13).

    Raises Busy while a command works here, and what a recovery raises: the next command settles it then.
    """
    with app.driver.hold("stopped, recover", wait_seconds=DRIVER_SECONDS):
        settle_leftovers(app)
    app.repository.back_up()


def is_private(environment: Mapping[str, str], home: Path) -> bool:
    """Whether *environment* names the private server in *home*, which nobody's worker uses but ours."""
    address = ServerState(home).address()
    return address is not None and address.api_url == environment.get("PREFECT_API_URL")


def _tell_what_became(app: App, *, private: bool) -> None:
    """No run of the processes that we ended may seem to go on; each frees its lock a moment after it is killed."""
    deadline = time.monotonic() + FREE_SECONDS
    mark_dead(app, private=private)
    while not at_rest(app) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
        mark_dead(app, private=private)
