"""(a) One issue, from `task_published` to `checkup_done` on the pure driver, against the same work by hand."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks import projects
from benchmarks.baselines import issue_by_hand
from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.sandbox import Effort
from irontree.app import App

NAME = "a: an issue on the pure driver"
BAR = 1.5
TITLE = "task"


def compare(effort: Effort) -> Iterator[Comparison]:
    """Each side gets a repository of its own each time, published and not yet begun."""
    places = (effort.folder / str(number) for number in count())
    rounds = alternate(
        lambda: _timed(next(places), projects.drive),
        lambda: _timed(next(places), _by_hand),
        effort.pairs,
        effort.watching(NAME),
    )
    yield Comparison(NAME, BAR, pairs_of(rounds, float))


def _timed(folder: Path, drive: Callable[[App, str], None]) -> float:
    """Seconds from published to done; what the laying out left unwritten is not counted."""
    folder.mkdir()
    app = projects.lay_out(folder, "project")
    loop_id = projects.publish_task(app, TITLE)
    os.sync()
    began = time.perf_counter()
    drive(app, loop_id)
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    return seconds


def _by_hand(app: App, loop_id: str) -> None:
    root = app.repository.root
    cache = root.parent / "cache"
    cache.mkdir()
    agent = f"IRONTREE_TASK_KEY={TITLE}; {projects.AGENT}"
    loop = root / ".mino" / "loops" / f"{loop_id}.yml"
    issue_by_hand.drive(issue_by_hand.Place(root, cache, loop, agent, projects.CHECK))
