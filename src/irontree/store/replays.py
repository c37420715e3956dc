"""The replayed state of every stream; what has not changed since last time comes from the cache (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from irontree import __version__
from irontree.domain.evolve import Replay
from irontree.domain.spending import Spending, spendings_of
from irontree.domain.state import Phase, TaskState
from irontree.ports import Clock, EventLog, Problem, Reading
from irontree.store.cache import DerivedCache, fingerprint_streams


class PlainReplays:
    """Reads every stream each time: the port `Replays` without a cache."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number."""
        return {number: read_one(self._log, number) for number in self._log.streams()}


class CachedReplays:
    """The port `Replays`; streams whose files are the same as last time are not read."""

    def __init__(self, log: EventLog, events: Path, cache: Path, clock: Clock) -> None:
        self._log = log
        self._events = events
        self._clock = clock
        self._cache = DerivedCache(cache / "replays.json", f"{__version__}/11")

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number."""
        marks = fingerprint_streams(self._events, self._clock)
        found = {number: self._one(number, mark) for number, mark in sorted(marks.items())}
        self._cache.save()
        return found

    def _one(self, number: int, mark: str | None) -> Reading:
        known = self._cache.get(number, mark)
        if known is not None:
            return _decoded(known)
        reading = read_one(self._log, number)
        self._cache.put(number, mark, lambda: _encoded(reading))
        return reading


def read_one(log: EventLog, issue_number: int) -> Reading:
    """Read and replay one stream."""
    stream = log.read(issue_number)
    return Reading(stream.replayed(), stream.problems, spendings_of(stream.records))


def _encoded(reading: Reading) -> dict[str, Any]:
    found = reading.replay
    return {
        "state": asdict(found.state) if found.state else None,
        "missing": list(found.missing),
        "problem": found.problem,
        "problems": [(problem.path, problem.what, problem.newer) for problem in reading.problems],
        "spendings": [astuple(spending) for spending in reading.spendings],
    }


def _decoded(value: Mapping[str, Any]) -> Reading:
    problems = tuple(Problem(path, what, newer) for path, what, newer in value["problems"])
    spendings = tuple(Spending(*spending) for spending in value["spendings"])
    return Reading(Replay(_state(value["state"]), tuple(value["missing"]), value["problem"]), problems, spendings)


def _state(value: dict[str, Any] | None) -> TaskState | None:
    if value is None:
        return None
    return TaskState(**{**value, "phase": Phase(value["phase"]), "before": _state(value["before"])})
