"""(d) Cold starts: `--help` against what any command with Rich pays, `status` against declaring the event models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cold import BARE_HELP, HELP, SmallLog
from benchmarks.measure import Comparison, alternate
from benchmarks.programs import launch
from benchmarks.sandbox import Effort

HELP_BAR, STATUS_BAR = 2.0, 1.5


def compare(effort: Effort) -> Iterator[Comparison]:
    """Whole processes, from their start to their end."""
    name = "d: --help, seconds"
    pairs = alternate(
        lambda: launch(HELP).seconds, lambda: launch(BARE_HELP).seconds, effort.pairs, effort.watching(name)
    )
    yield Comparison(name, HELP_BAR, pairs)
    log, name = SmallLog.lay_out(effort.folder), "d: status on a small log, seconds"
    pairs = alternate(
        lambda: log.status().seconds, lambda: log.bare().seconds, effort.pairs, effort.watching(name)
    )
    yield Comparison(name, STATUS_BAR, pairs)
