"""(i) How long a person waits: until a run that is due begins, and until an answer is an event.

The same flows on the same server: started by our fork server, and by Prefect's runner as it comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.private_server import private_server
from benchmarks.projects import lay_out
from benchmarks.sandbox import Effort

DISPATCH, CLICK = "i: from a run's creation to its first moment", "i: from an answer to its event"
BAR = 0.35


def compare(effort: Effort) -> Iterator[Comparison]:
    """One repository for each side."""
    app, stock = lay_out(effort.folder, "ours"), lay_out(effort.folder, "stock")
    with private_server(effort.folder) as server, ExitStack() as serving:
        prefect_runs = importlib.import_module("benchmarks.prefect_runs")  # imports Prefect
        serving.enter_context(
            prefect_runs.served(prefect_runs.ours(app), environment=server.environment, folder=server.state_folder)
        )
        serving.enter_context(prefect_runs.served_by_stock(prefect_runs.ours(stock), environment=server.environment))
        titles = (f"task-{number}" for number in count(1))
        dispatched = alternate(
            lambda: prefect_runs.time_ours(app, next(titles)).dispatch,
            lambda: prefect_runs.time_ours(stock, next(titles)).dispatch,
            effort.pairs,
            effort.watching(DISPATCH),
        )
        clicked = alternate(
            lambda: prefect_runs.time_resume_ours(app, next(titles)),
            lambda: prefect_runs.time_resume_ours(stock, next(titles)),
            effort.pairs,
            effort.watching(CLICK),
        )
    yield Comparison(DISPATCH, BAR, pairs_of(dispatched, float))
    yield Comparison(CLICK, BAR, pairs_of(clicked, float))
