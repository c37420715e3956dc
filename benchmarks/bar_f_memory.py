"""(f) Peak memory: the commands of bar d against the same baselines, and a flow process of ours against a bare one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

from benchmarks.cold import SmallLog, bare_help, show_help
from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.private_server import PrivateServer, private_server
from benchmarks.programs import Usage, launch
from benchmarks.projects import lay_out
from benchmarks.sandbox import Effort

START_BAR, FLOW_BAR = 2.0, 1.3
FLOW_NAME = "f: flow process of an issue, memory"
ENGINE = (sys.executable, "-m", "prefect.engine")
"""What a runner starts for each run."""


def compare(effort: Effort) -> Iterator[Comparison]:
    """The largest resident size of each process, as the kernel saw it."""
    yield from compare_commands(effort)
    yield _compare_flows(effort)


def compare_commands(effort: Effort) -> Iterator[Comparison]:
    """Both need no server."""
    name = "f: --help, memory"
    rounds = alternate(show_help, bare_help, effort.pairs, effort.watching(name))
    yield Comparison(name, START_BAR, pairs_of(rounds, _memory), "MB")
    log, name = SmallLog.lay_out(effort.folder), "f: status on a small log, memory"
    rounds = alternate(log.status, log.bare, effort.pairs, effort.watching(name))
    yield Comparison(name, START_BAR, pairs_of(rounds, _memory), "MB")


def _compare_flows(effort: Effort) -> Comparison:
    """An issue's run that takes all its steps, and a bare one with as many tasks; nobody else serves them."""
    folder = effort.folder / "flows"
    folder.mkdir()
    app = lay_out(folder, "project")
    with private_server(folder) as server:
        prefect_runs = importlib.import_module("benchmarks.prefect_runs")  # imports Prefect
        issue = next(served for served in prefect_runs.ours(app) if served.entrypoint.endswith(".issue"))
        bare = prefect_runs.BARE_ISSUE
        for deployment in (issue, bare):
            prefect_runs.register(deployment)
        titles = (f"task-{number}" for number in count(1))
        rounds = alternate(
            lambda: _flow(
                server, issue, prefect_runs.make_issue_run(app, next(titles)), prefect_runs.require_completed
            ),
            lambda: _flow(server, bare, prefect_runs.make_bare_issue_run(), prefect_runs.require_completed),
            effort.pairs,
            effort.watching(FLOW_NAME),
        )
    return Comparison(FLOW_NAME, FLOW_BAR, pairs_of(rounds, _memory), "MB")


def _flow(server: PrivateServer, deployment: Any, run_id: UUID, require_completed: Callable[[UUID], None]) -> Usage:
    """What the process of that run took, started as a runner starts it."""
    run = {"PREFECT__FLOW_RUN_ID": str(run_id), "PREFECT__FLOW_ENTRYPOINT": deployment.entrypoint}
    usage = launch(ENGINE, environment=server.environment | run, folder=server.state_folder)
    require_completed(run_id)
    return usage


def _memory(usage: Usage) -> float:
    return usage.megabytes
