"""(c) Replaying 1,000 issues of eight events each, against reading the same YAML; a second `status` after a first."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.baselines.read_yaml import read_events
from benchmarks.logs import EVENTS_PER_ISSUE, lay_out_log
from benchmarks.measure import Comparison, Pair, alternate, pairs_of
from benchmarks.programs import IRONTREE, launch
from benchmarks.sandbox import Effort
from irontree.app import SystemClock
from irontree.cli.main import main
from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout
from irontree.store.replays import CachedReplays
from irontree.store.streams import ISSUE_FORM

REPLAY_BAR, SECOND_BAR = 1.5, 0.2


def compare(effort: Effort) -> Iterator[Comparison]:
    """One log for all comparisons."""
    issues = 20 if effort.quick else 1_000
    root = lay_out_log(effort.folder, issues).repository.root
    yield _replay(effort, root, issues)
    name = f"c: second status against first, {issues:,} issues"
    yield _second_status(effort, root, _status_here, name, SECOND_BAR)
    yield _second_status(effort, root, _status_anew, f"{name}, whole commands", None)


def _replay(effort: Effort, root: Path, issues: int) -> Comparison:
    """Both in this process. Ours begins without a cache and writes one."""
    name = f"c: replay, {issues:,} issues x {EVENTS_PER_ISSUE} events against YAML alone"
    rounds = alternate(
        lambda: _replayed(root, issues), lambda: _read(root, issues), effort.pairs, effort.watching(name)
    )
    return Comparison(name, REPLAY_BAR, pairs_of(rounds, float))


def _replayed(root: Path, issues: int) -> float:
    layout = _forget(root)
    gc.collect()
    began = time.perf_counter()
    log = FileEventLog(ISSUE_FORM, root, SystemClock())
    found = CachedReplays(log, layout.events, layout.cache, SystemClock()).all()
    seconds = time.perf_counter() - began
    if len([reading for reading in found.values() if reading.replay.state and reading.replay.state.done]) != issues:
        raise RuntimeError("the replay did not find all issues done")
    return seconds


def _read(root: Path, issues: int) -> float:
    gc.collect()
    began = time.perf_counter()
    files = read_events(Layout(root).events)
    seconds = time.perf_counter() - began
    if files != issues * EVENTS_PER_ISSUE:
        raise RuntimeError(f"{files} files read")
    return seconds


def _second_status(
    effort: Effort, root: Path, status: Callable[[Path], float], name: str, bar: float | None
) -> Comparison:
    """Twice the same each time, the first without a cache; they cannot change places."""
    watch, pairs = effort.watching(name), []
    status(root)
    for number in range(effort.pairs):
        _forget(root)
        first, second = status(root), status(root)
        pairs.append(Pair(ours=second, baseline=first))
        watch(number + 1)
    return Comparison(name, bar, tuple(pairs))


def _status_here(root: Path) -> float:
    """All that the command does, but for the start of an interpreter and its imports: bar d looks at those."""
    gc.collect()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        began = time.perf_counter()
        code = main(["-C", str(root), "status"])
        seconds = time.perf_counter() - began
    if code:
        raise RuntimeError(f"status ended with {code}")
    return seconds


def _status_anew(root: Path) -> float:
    """The whole command."""
    return launch([IRONTREE, "-C", str(root), "status"]).seconds


def _forget(root: Path) -> Layout:
    """Remove what was derived from the log."""
    layout = Layout(root)
    shutil.rmtree(layout.cache, ignore_errors=True)
    return layout
