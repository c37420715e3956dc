"""(b) What Prefect adds to an issue, against bare Prefect runs of the same number, nesting and dispatch.

A round of ours is the time through Prefect less the time of the same work on the pure driver, in a repository of the
same age. Both sides are served by runners of their own, as `irontree task` does it, at the same private server.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from types import ModuleType
from typing import Any

from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.private_server import private_server
from benchmarks.projects import drive, lay_out, publish_task
from benchmarks.sandbox import Effort
from irontree.app import App

NAME, DISPATCH = "b: what Prefect adds to an issue", "b: dispatch latency of a run"
BAR = 1.25


def compare(effort: Effort) -> Iterator[Comparison]:
    """One repository for the runs, one for the pure driver; each round adds a task to both."""
    through, pure = lay_out(effort.folder, "through"), lay_out(effort.folder, "pure")
    with private_server(effort.folder) as server, ExitStack() as serving:
        prefect_runs = importlib.import_module("benchmarks.prefect_runs")  # imports Prefect
        for deployments in (prefect_runs.ours(through), (prefect_runs.BARE_LOOP, prefect_runs.BARE_ISSUE)):
            serving.enter_context(
                prefect_runs.served(deployments, environment=server.environment, folder=server.state_folder)
            )
        titles = (f"task-{number}" for number in count(1))
        rounds = alternate(
            lambda: _added(prefect_runs, through, pure, next(titles)),
            prefect_runs.time_bare,
            effort.pairs,
            effort.watching(NAME),
        )
    yield Comparison(NAME, BAR, pairs_of(rounds, lambda timing: timing.total))
    yield Comparison(DISPATCH, None, pairs_of(rounds, lambda timing: timing.dispatch))


def _added(prefect_runs: ModuleType, through: App, pure: App, title: str) -> Any:
    """A timing of ours, its total without the work itself."""
    timing = prefect_runs.time_ours(through, title)
    return prefect_runs.Timing(timing.total - _on_the_pure_driver(pure, title), timing.dispatch)


def _on_the_pure_driver(app: App, title: str) -> float:
    loop_id = publish_task(app, title)
    os.sync()
    began = time.perf_counter()
    drive(app, loop_id)
    return time.perf_counter() - began
