"""`run.lock` and `loops/active.lock` in their contract form: information for people and other tools (R3).

Liveness is the kernel's (`locks.py`). One of these that another tool or another host wrote is believed for
2 h and 6 h; our own count for nothing once the kernel lock is free.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from irontree.domain.child import Child
from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.domain.values import Value
from irontree.errors import Busy, EnvironmentRefused, LogDamaged
from irontree.files import disk_errors, lives, overwrite, read_bytes, replace
from irontree.ports import Clock, Holder, LeftLease
from irontree.store.codec import EVENT_BYTES, read_mapping, typed
from irontree.store.documents import V, encode_value
from irontree.store.layout import Layout
from irontree.store.locks import FileLock, exclusive

RUN_STALE = timedelta(hours=2)
LEASE_STALE = timedelta(hours=6)
BEAT_SECONDS = 60.0
Limit = Callable[[], timedelta]
"""A time limit, read lazily: it is needed only for another tool's file, and reading the configuration costs time."""


class _Mark(Value):
    """`meta:` of a lock file of ours: beside the contract's keys, who wrote it and what it started."""

    writer: Literal["irontree"] = "irontree"
    host: str
    pid: int
    children: tuple[Child, ...] = ()


class _RunLock(Value):
    task_key: str | None
    issue_number: int | None
    acquired_at: str
    host: str
    meta: _Mark


class _Lease(Value):
    loop_id: str
    holder_pid: int
    # Only the orchestrator holds the lease, and this is its name in the contract.
    holder_agent: Literal["mino-task"] = "mino-task"
    acquired_at: str
    heartbeat_at: str
    meta: _Mark


class FoundLock(NamedTuple):
    """A lock file as it is: who says to work on what, since when, and whether we wrote it on this host."""

    what: str
    host: str
    since: datetime
    ours: bool
    stale: bool
    """Another's, and older than the contract's limit: may be overridden once a user has confirmed it."""

    @property
    def foreign(self) -> bool:
        """Another tool or host wrote it, recently enough to be believed."""
        return not self.ours and not self.stale

    def __str__(self) -> str:
        """For a message: `issue-12 (auth-core), since 2026-04-22T14:32:11Z, on builder-2`."""
        return f"{self.what}, since {utc_text(self.since)}" + (f", on {self.host}" if self.host else "")


class _LockFile:
    """What the two files share: our mark under `meta:`, and telling ours from others'."""

    def __init__(self, path: Path, clock: Clock, host: str, stale_after: Limit) -> None:
        self._path = path
        self._clock = clock
        self._host = host
        self._stale_after = stale_after

    def found(self) -> FoundLock | None:
        """The lock file of any writer; `None` if it is missing, or was emptied by a power loss."""
        data = read_bytes(self._path, EVENT_BYTES)
        if not data:
            return None
        mapping = self._mapping(data)
        since = moment_in_utc(mapping.get("heartbeat_at") or mapping.get("acquired_at")) or self._written_at()
        ours = self._is_ours(mapping)
        return FoundLock(
            what=self._what(mapping),
            host=str(mapping.get("host") or ""),
            since=since,
            ours=ours,
            stale=not ours and (self._is_dead(mapping) or self._clock.now() - since > self._stale_after()),
        )

    def foreign(self) -> str | None:
        """The holder, in words, if another tool or host wrote the file recently enough to be believed."""
        found = self.found()
        return str(found) if found and found.foreign else None

    def override(self) -> None:
        """Remove a stale one of another tool or host; any other stays."""
        found = self.found()
        if found and found.stale:
            self._delete()

    def _is_dead(self, mapping: Mapping[str, Any]) -> bool:  # noqa: ARG002 - a lease names a process, a run lock none
        """Whether the content names a process of this host that is gone."""
        return False

    def _what(self, mapping: Mapping[str, Any]) -> str:
        raise NotImplementedError

    def _own(self, model: type[V]) -> V | None:
        """The file as we wrote it; None without one, or if another tool or host wrote it."""
        data = read_bytes(self._path, EVENT_BYTES)
        mapping = self._mapping(data) if data else {}
        return typed(model, mapping, str(self._path), remedy="remove the file") if self._is_ours(mapping) else None

    def _delete(self) -> None:
        with disk_errors(self._path):
            self._path.unlink(missing_ok=True)

    def _mark(self, children: tuple[Child, ...] = ()) -> _Mark:
        return _Mark(host=self._host, pid=os.getpid(), children=children)

    def _now(self) -> str:
        return utc_text(self._clock.now())

    def _mapping(self, data: bytes) -> dict[str, Any]:
        """The content; empty if it cannot be read."""
        try:
            return read_mapping(data, str(self._path))
        except LogDamaged:
            return {}

    def _is_ours(self, mapping: Mapping[str, Any]) -> bool:
        meta = mapping.get("meta")
        return isinstance(meta, dict) and meta.get("writer") == "irontree" and meta.get("host") == self._host

    def _written_at(self) -> datetime:
        """The file's own time, where the content names none."""
        with disk_errors(self._path):
            return datetime.fromtimestamp(self._path.stat().st_mtime, UTC)


class RunLockFile(_LockFile):
    """The port `RunLock` on `.mino/run.lock`; its `meta:` holds the children we started (R3).

    A process that only reads has children (git) too, so changes are made under the append lock.
    """

    def __init__(self, path: Path, clock: Clock, host: str, stale_after: Limit = lambda: RUN_STALE) -> None:
        super().__init__(path, clock, host, stale_after)
        self._append_lock = Layout(path.parent.parent).append_lock
        self._known: tuple[bytes, _RunLock] | None = None
        """What we wrote last: with each program started it is looked at twice, and parsing YAML takes longest."""

    def write(self, task_key: str, issue_number: int) -> None:
        """Say that this issue is being worked on; children that are recorded stay so."""
        with self._changing():
            self._write(self._new(task_key, issue_number, self.recorded()))

    def remove(self) -> None:
        """Say that nothing is being worked on; recorded children stay, and so does another tool's file."""
        with self._changing():
            before = self._current()
            if before:
                idle = before.model_copy(update={"task_key": None, "issue_number": None})
                self._replace_children(idle, before.meta.children)

    def stale(self) -> str | None:
        """The holder, in words, if another tool or host wrote the file longer ago than the limit."""
        found = self.found()
        return str(found) if found and found.stale else None

    def override(self) -> None:
        """As above, under the append lock."""
        with self._changing():
            super().override()

    def record(self, child: Child) -> None:
        """Add a child, before it is let go; another tool's file stays as it is (our guard still ends the child)."""
        with self._changing():
            before = self._current()
            if before is None and self.found():
                return
            before = before or self._new(None, None, ())
            self._replace_children(before, (*before.meta.children, child))

    def forget(self, pid: int) -> None:
        """Remove a child that has ended, and with the last one a file that names no task; no error without it."""
        with self._changing():
            before = self._current()
            if before:
                self._replace_children(before, tuple(child for child in before.meta.children if child.pid != pid))

    def recorded(self) -> tuple[Child, ...]:
        """The children that were recorded and not forgotten; none if another tool or host wrote the file."""
        own = self._current()
        return own.meta.children if own else ()

    def _current(self) -> _RunLock | None:
        """The file as we wrote it; None without one, or if another tool or host wrote it."""
        if self._known and read_bytes(self._path, EVENT_BYTES) == self._known[0]:
            return self._known[1]
        return self._own(_RunLock)

    def _new(self, task_key: str | None, issue_number: int | None, children: tuple[Child, ...]) -> _RunLock:
        return _RunLock(
            task_key=task_key,
            issue_number=issue_number,
            acquired_at=self._now(),
            host=self._host,
            meta=self._mark(children),
        )

    def _write(self, value: _RunLock) -> None:
        self._known = overwrite(self._path, encode_value(value)), value

    def _changing(self) -> AbstractContextManager[None]:
        return exclusive(self._append_lock)

    def _replace_children(self, before: _RunLock, children: tuple[Child, ...]) -> None:
        if before.task_key is None and not children:
            self._delete()
            return
        self._write(before.model_copy(update={"meta": before.meta.model_copy(update={"children": children})}))

    def _what(self, mapping: Mapping[str, Any]) -> str:
        number = mapping.get("issue_number")
        return f"issue-{number} ({mapping.get('task_key')})" if number else "an unnamed task"


class LoopLease(_LockFile):
    """The port `Lease`: the kernel's lock, with `.mino/loops/active.lock` beside it for people and other tools.

    The file is written by the holder of the lock alone.
    """

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        host: str,
        stale_after: Limit = lambda: LEASE_STALE,
        *,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        super().__init__(layout.active_lock, clock, host, stale_after)
        self._lock = FileLock(layout.lease_lock, clock, host)
        self._beat_seconds = beat_seconds

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        """Hold the lease for the loop with id *what*; raises Busy, naming who has it.

        An `active.lock` that another tool or host wrote counts, until a stale one is taken over.
        """
        with self._lock.hold(what, wait_seconds=wait_seconds):
            self._respect_foreign()
            self.write(what)
            try:
                with self._beating():
                    yield
            finally:
                self._delete()

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""
        return self._lock.holder()

    def stale(self) -> LeftLease | None:
        """What another tool or host left behind."""
        found = self.found()
        return self._left(found) if found and found.stale else None

    def left(self) -> LeftLease | None:
        """What a process of ours left behind that is gone."""
        found = self.found()
        return self._left(found) if found and found.ours and self.holder() is None else None

    def remove_left(self) -> None:
        """Remove the file, under the lock that its writer no longer holds."""
        with suppress(Busy), self._lock.hold("a lease that was left"):
            found = self.found()
            if found and found.ours:
                self._delete()

    def write(self, loop_id: str) -> None:
        """Say that this loop is active from now on."""
        now = self._now()
        self._write(
            _Lease(loop_id=loop_id, holder_pid=os.getpid(), acquired_at=now, heartbeat_at=now, meta=self._mark())
        )

    def heartbeat(self) -> None:
        """Record that the loop is still active; does nothing if the file is gone or not ours."""
        own = self._own(_Lease)
        if own:
            self._write(own.model_copy(update={"heartbeat_at": self._now()}))

    def _write(self, value: _Lease) -> None:
        replace(self._path, encode_value(value))

    def _left(self, found: FoundLock) -> LeftLease:
        data = read_bytes(self._path, EVENT_BYTES) or b""
        loop_id = self._mapping(data).get("loop_id")
        return LeftLease(str(loop_id) if loop_id else None, str(found))

    def _is_dead(self, mapping: Mapping[str, Any]) -> bool:
        """Gone, whatever its heartbeat says (contract, lease). Another host's processes cannot be seen from here."""
        meta, pid = mapping.get("meta"), str(mapping.get("holder_pid"))
        host = meta.get("host") if isinstance(meta, dict) else self._host
        return host == self._host and pid.isdecimal() and not lives(int(pid))

    def _what(self, mapping: Mapping[str, Any]) -> str:
        return f"loop {mapping.get('loop_id') or 'unknown'}, process {mapping.get('holder_pid') or 'unknown'}"

    @contextmanager
    def _beating(self) -> Iterator[None]:
        ended = threading.Event()
        heart = threading.Thread(target=self._beat, args=(ended,), name="lease heartbeat", daemon=True)
        heart.start()
        try:
            yield
        finally:
            ended.set()
            heart.join()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(self._beat_seconds):
            with suppress(EnvironmentRefused):  # information for others; the loop does not stop for it
                self.heartbeat()

    def _respect_foreign(self) -> None:
        found = self.found()
        if found and found.foreign:
            raise Busy(
                f"another tool's loop is active: {found} (.mino/loops/active.lock)",
                remedy="wait for it, or remove that file once you are sure that the loop has ended",
            )
        if found and found.stale:
            raise Busy(
                f"stale loop lease detected: {found} (.mino/loops/active.lock)",
                remedy="`irontree task` asks whether to take it over",
            )
