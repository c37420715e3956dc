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

    home: Path
    environment: dict[str, str]


@contextmanager
def private_server(folder: Path) -> Iterator[PrivateServer]:
    """Have a server with its state in *folder*, and this process's Prefect pointed at it: import Prefect only now."""
    home = folder / "prefect"
    with closing(LocalServer(home, os.environ, linger=1).start()) as server:
        environment = local_environment(os.environ, home, server.wait_ready(START_SECONDS))
        adopt(environment, home)
        yield PrivateServer(home, environment | {"PYTHONPATH": str(HERE.parent)})
    _wait_for_its_end(home)


def _wait_for_its_end(home: Path) -> None:
    """Its folder is removed next."""
    state, deadline = ServerState(home), time.monotonic() + END_SECONDS
    while state.lives() and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
