"""The bars by their letter, and the measuring of one of them."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.measure import load
from benchmarks.report import Measured
from benchmarks.sandbox import Effort, enter

BARS = {
    "a": "bar_a_issue",
    "b": "bar_b_prefect",
    "c": "bar_c_replay",
    "d": "bar_d_start",
    "e": "bar_e_decide",
    "f": "bar_f_memory",
    "g": "bar_g_scale",
    "h": "bar_h_large",
    "i": "bar_i_dispatch",
    "j": "bar_j_first_attempt",
    "k": "bar_k_workflow",
}


def measure(bar: str, pairs: int, *, quick: bool) -> Measured:
    """All comparisons of one bar, in a process of its own: none inherits what another imported, cached or set."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as worker:
        return worker.submit(_measure_here, bar, pairs, quick=quick).result()


def _measure_here(bar: str, pairs: int, *, quick: bool) -> Measured:
    before = load()
    with tempfile.TemporaryDirectory(prefix="irontree-bench-", ignore_cleanup_errors=True) as folder:
        enter(Path(folder))
        compare = importlib.import_module(f"benchmarks.{BARS[bar]}").compare
        rows = tuple(compare(Effort(pairs, quick, Path(folder), _say)))
    return Measured(rows, before, load())


def _say(name: str, done: int) -> None:
    sys.stderr.write(f"{name}: pair {done}\n")
