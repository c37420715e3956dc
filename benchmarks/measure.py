"""Pairs of measurements and what they amount to, and facts about the machine they were taken on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeVar

T = TypeVar("T")

Unit = Literal["s", "MB"]
Watch = Callable[[int], None]
"""Told how many pairs are done."""

LIBRARIES = ("irontree", "prefect", "pydantic", "PyYAML")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two measurements, taken one after the other."""

    ours: float
    baseline: float

    @property
    def ratio(self) -> float:
        """How many times the baseline ours is."""
        return self.ours / self.baseline


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of the table. *bar* is the ratio that must not be exceeded; None: for information."""

    name: str
    bar: float | None
    pairs: tuple[Pair, ...]
    unit: Unit = "s"

    @property
    def ratio(self) -> float:
        """The median of the ratios of the pairs: what slows a whole pair down does not count."""
        return statistics.median(pair.ratio for pair in self.pairs)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile of the ratios."""
        return quartiles([pair.ratio for pair in self.pairs])

    @property
    def ok(self) -> bool:
        """Whether the bar is kept."""
        return self.bar is None or self.ratio <= self.bar

    @property
    def ours(self) -> float:
        """The median of our side, in *unit*."""
        return statistics.median(pair.ours for pair in self.pairs)

    @property
    def baseline(self) -> float:
        """The median of the other side, in *unit*."""
        return statistics.median(pair.baseline for pair in self.pairs)


def quartiles(values: list[float]) -> tuple[float, float]:
    """The first and third quartile, ends included; of a single value, that value."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def alternate(
    ours: Callable[[], T], baseline: Callable[[], T], pairs: int, watch: Watch = lambda _: None
) -> tuple[tuple[T, T], ...]:
    """Take *pairs* pairs, each side first every other time; one of each before them warms up and does not count."""
    ours(), baseline()
    found: list[tuple[T, T]] = []
    for number in range(pairs):
        found.append(_both(ours, baseline) if number % 2 == 0 else _both(baseline, ours)[::-1])
        watch(number + 1)
    return tuple(found)


def _both(first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
    found = first()
    return found, second()


def pairs_of(rounds: Iterable[tuple[T, T]], figure: Callable[[T], float]) -> tuple[Pair, ...]:
    """One *figure* of what was measured, as pairs."""
    return tuple(Pair(figure(ours), figure(baseline)) for ours, baseline in rounds)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the figures were taken, and with which versions."""

    cpu: str
    cores: int
    system: str
    versions: dict[str, str]


def this_machine() -> Machine:
    """Ask the machine that we are on."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    versions = {"python": platform.python_version(), "git": git.removeprefix("git version ").strip()}
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.release()}",
        versions=versions | {name: version(name) for name in LIBRARIES},
    )


def load() -> tuple[float, float, float]:
    """The load averages of the last 1, 5 and 15 minutes: above the number of cores, others were at work too."""
    return os.getloadavg()


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
