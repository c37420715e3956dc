"""(g) How it grows: what an answer waits for, one repository against four on four workers, memory of what stays.

All at one private server, with a runner of its own for each repository, as each home has one.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import psutil

from benchmarks.measure import Comparison, Pair, alternate, pairs_of
from benchmarks.private_server import PrivateServer, private_server
from benchmarks.projects import lay_out
from benchmarks.sandbox import Effort
from irontree.flows.server.connection import ServerState

RESUME = "g: from an answer to its event"
SPREAD = "g: four tasks, of one repository or of four"
REPOSITORIES = 4
MEGABYTE = 1024 * 1024


def compare(effort: Effort) -> Iterator[Comparison]:
    """Four repositories, each with a runner; the sides of the second row are both ours."""
    apps = [lay_out(effort.folder, f"home-{number}") for number in range(REPOSITORIES)]
    pairs = max(1, effort.pairs // 4)
    with private_server(effort.folder) as server, ExitStack() as serving:
        prefect_runs = importlib.import_module("benchmarks.prefect_runs")  # imports Prefect
        fresh = _server_memory(server)
        served = (*(prefect_runs.ours(app) for app in apps), (prefect_runs.BARE_QUESTION,))
        for deployments in served:
            serving.enter_context(
                prefect_runs.served(deployments, environment=server.environment, folder=server.state_folder)
            )
        runner_fresh = _runner_memory()
        names = (f"round-{number}" for number in count(1))
        resumed = alternate(
            lambda: prefect_runs.time_resume_ours(apps[0], next(names)),
            prefect_runs.time_resume_bare,
            pairs,
            effort.watching(RESUME),
        )
        spread = alternate(
            lambda: prefect_runs.time_tasks(apps[:1], next(names), REPOSITORIES),
            lambda: prefect_runs.time_tasks(apps, next(names), 1),
            pairs,
            effort.watching(SPREAD),
        )
        server_memory = Pair(_server_memory(server), fresh)
        runner_memory = Pair(_runner_memory(), runner_fresh)
    yield Comparison(RESUME, None, pairs_of(resumed, float))
    yield Comparison(SPREAD, None, pairs_of(spread, float))
    yield Comparison("g: memory of the server, at the end and when it was new", None, (server_memory,), "MB")
    yield Comparison("g: memory of a runner, at the end and when it was new", None, (runner_memory,), "MB")


def _server_memory(server: PrivateServer) -> float:
    address = ServerState(server.state_folder).address()
    return _memory_of(address.pid) if address else float("nan")


def _runner_memory() -> float:
    """The mean of all that this process started."""
    started = psutil.Process().children()
    return statistics.mean(
        _memory_of(child.pid) for child in started if "irontree.flows.serve.serving" in child.cmdline()
    )


def _memory_of(pid: int) -> float:
    """What of it is in memory now, MB."""
    return psutil.Process(pid).memory_info().rss / MEGABYTE
