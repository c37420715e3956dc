"""A private Prefect server for a benchmark, started as the product starts its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.programs import HERE
from irontree.flows.server.connection import ServerState, adopt, local_environment
from irontree.flows.server.private import LocalServer

START_SECONDS = 180
END_SECONDS = 30
LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class PrivateServer:
    """Its state folder, and the environment of processes that use it; the sample flows can be imported there."""

    state_folder: Path
    environment: dict[str, str]


@contextmanager
def private_server(folder: Path) -> Iterator[PrivateServer]:
    """Have a server with its state in *folder*, and this process's Prefect pointed at it: import Prefect only now."""
    state_folder = folder / "prefect"
    with closing(LocalServer(state_folder, os.environ, linger=1).start()) as server:
        environment = local_environment(os.environ, state_folder, server.wait_ready(START_SECONDS))
        adopt(environment, state_folder)
        yield PrivateServer(state_folder, environment | {"PYTHONPATH": str(HERE.parent)})
    _wait_for_its_end(state_folder)


def _wait_for_its_end(state_folder: Path) -> None:
    """Its folder is removed next."""
    state, deadline = ServerState(state_folder), time.monotonic() + END_SECONDS
    while state.lives() and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
