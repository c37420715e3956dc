"""The replayed state of every stream; what has not changed since last time comes from the cache (docs/protocol.md).

Losing it costs time alone: a damaged file counts as none, and one that cannot be written is not written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irontree import __version__
from irontree.domain.machine import Replay
from irontree.domain.spending import Spending, spendings_of
from irontree.domain.state import Phase, TaskState
from irontree.errors import EnvironmentRefused
from irontree.files import SETTLED_NS, read_bytes, replace
from irontree.ports import Clock, IssueLog, Problem, Reading, Stream
from irontree.store.streams import ISSUE_FORM, stream_folders

CACHE_BYTES = 512 * 1024 * 1024


def fingerprint_streams(events: Path, clock: Clock) -> dict[int, str | None]:
    """Issue number -> digest over name, size, mtime and inode of all its event files (*events*: their parent folder).

    None where a file is so young that it could still change without a sign of it.
    """
    settled = int(clock.now().timestamp() * 1e9) - SETTLED_NS
    found = {number: _facts(folder) for number, folder in stream_folders(ISSUE_FORM, events.parent).items()}
    return {number: _digest(facts, settled) for number, facts in found.items() if facts}


def _facts(folder: str) -> list[tuple[str, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            stats = [(entry.name, entry.stat()) for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):  # archived meanwhile, or no stream
        return []
    return sorted((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)


def _digest(facts: list[tuple[str, int, int, int]], settled: int) -> str | None:
    if any(modified > settled for _, _, modified, _ in facts):
        return None
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


class DerivedCache:
    """JSON values by stream, each valid for one fingerprint; a new *version* forgets them all."""

    def __init__(self, path: Path, version: str) -> None:
        self._path = path
        self._version = version
        self._entries = _load(path, version)
        self._changed = False

    def get(self, issue_number: int, fingerprint: str) -> Any | None:
        """The value stored for exactly this fingerprint; None if there is none."""
        known, value = self._entries.get(str(issue_number), (None, None))
        return value if known == fingerprint else None

    def put(self, issue_number: int, fingerprint: str, value: Any) -> None:
        """Keep this JSON value for that fingerprint."""
        self._entries[str(issue_number)] = (fingerprint, value)
        self._changed = True

    def save(self) -> None:
        """Write what is new, in one step; a folder that cannot be written is left alone."""
        if not self._changed:
            return
        body = json.dumps(self._entries, separators=(",", ":")).encode()
        with suppress(EnvironmentRefused):
            replace(self._path, _seal(body, self._version) + b"\n" + body)
            self._changed = False


def _load(path: Path, version: str) -> dict[str, tuple[str | None, Any]]:
    try:
        data = read_bytes(path, CACHE_BYTES)
    except EnvironmentRefused:
        return {}
    seal, _, body = (data or b"").partition(b"\n")
    return json.loads(body) if seal == _seal(body, version) else {}


def _seal(body: bytes, version: str) -> bytes:
    """A checksum that detects damage, and values that another version derived."""
    return hashlib.blake2b(body, key=hashlib.sha256(version.encode()).digest()).hexdigest().encode()


class PlainReplays:
    """The port `Replays` without a file: each stream is read every time, and replayed if it differs from last time."""

    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._known: dict[int, tuple[Stream, Reading]] = {}

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number."""
        return {number: self.one(number) for number in self._log.streams()}

    def one(self, number: int) -> Reading:
        """The stream of that issue."""
        stream, known = self._log.read(number), self._known.get(number)
        if known is None or known[0] != stream:
            known = self._known[number] = stream, _reading_of(stream)
        return known[1]


class CachedReplays:
    """The port `Replays`; streams whose files are the same as last time are not read."""

    def __init__(self, log: IssueLog, events: Path, cache: Path, clock: Clock) -> None:
        self._log = log
        self._events = events
        self._clock = clock
        self._cache = DerivedCache(cache / "replays.json", f"{__version__}/12")
        self._young = PlainReplays(log)

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number."""
        marks = fingerprint_streams(self._events, self._clock)
        found = {number: self._one(number, mark) for number, mark in sorted(marks.items())}
        self._cache.save()
        return found

    def _one(self, number: int, mark: str | None) -> Reading:
        if mark is None:
            return self._young.one(number)
        known = self._cache.get(number, mark)
        if known is not None:
            return _decoded(known)
        reading = _reading_of(self._log.read(number))
        self._cache.put(number, mark, _encoded(reading))
        return reading


def _reading_of(stream: Stream) -> Reading:
    return Reading(stream.replayed(), stream.problems, spendings_of(stream.records))


def _encoded(reading: Reading) -> dict[str, Any]:
    found = reading.replay
    return {
        "state": asdict(found.state) if found.state else None,
        "missing": list(found.missing),
        "problem": found.problem,
        "problems": reading.problems,
        "spendings": reading.spendings,
    }


def _decoded(value: Mapping[str, Any]) -> Reading:
    problems = tuple(Problem(*problem) for problem in value["problems"])
    spendings = tuple(Spending(*spending) for spending in value["spendings"])
    return Reading(Replay(_state(value["state"]), tuple(value["missing"]), value["problem"]), problems, spendings)


def _state(value: dict[str, Any] | None) -> TaskState | None:
    if value is None:
        return None
    return TaskState(**{**value, "phase": Phase(value["phase"]), "before": _state(value["before"])})
