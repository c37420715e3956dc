"""(d) Cold starts: `--help` against what any command with Rich pays, `status` against declaring the event models."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cold import SmallLog, bare_help, show_help
from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.sandbox import Effort

HELP_BAR, STATUS_BAR = 2.0, 2.0


def compare(effort: Effort) -> Iterator[Comparison]:
    """Whole processes, from their start to their end."""
    name = "d: --help, time"
    rounds = alternate(show_help, bare_help, effort.pairs, effort.watching(name))
    yield Comparison(name, HELP_BAR, pairs_of(rounds, lambda usage: usage.seconds))
    log, name = SmallLog.lay_out(effort.folder), "d: status on a small log, time"
    rounds = alternate(log.status, log.bare, effort.pairs, effort.watching(name))
    yield Comparison(name, STATUS_BAR, pairs_of(rounds, lambda usage: usage.seconds))
