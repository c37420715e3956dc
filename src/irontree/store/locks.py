"""Kernel locks (R2, R3): `flock` on files that are never deleted. A free lock means that its holder has ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from irontree.domain.timestamps import utc_text
from irontree.errors import Busy, EnvironmentRefused
from irontree.files import disk_errors, open_lock, take_lock
from irontree.ports import Children, Clock, Holder
from irontree.store.layout import STATE_FOLDER

# `holder()` of another process takes the lock for an instant; no caller is refused because of that.
PROBE_SECONDS = 0.1
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25
HOLDER_BYTES = 4096


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of an append, waiting for it as long as others need for theirs (milliseconds)."""
    with _opened(path) as descriptor:
        _take(descriptor, path, wait=True)
        yield


def flock_works(folder: Path) -> bool:
    """Whether locks keep others out on the file system of *folder* (asked by `init` and `doctor`)."""
    probe = folder / ".flock-probe"
    try:
        with _opened(probe) as first, _opened(probe) as second:
            _take(first, probe, wait=True)
            return not _take(second, probe)
    except EnvironmentRefused:
        return False
    finally:
        probe.unlink(missing_ok=True)


class FileLock:
    """The port `Lock`: the driver lock of a repository, or a loop's lease.

    Not re-entrant: a second `hold` is refused in the same process and thread too. The file's content says who
    holds it; that is for people alone. The descriptor is not inherited by programs that are started meanwhile.
    """

    def __init__(self, path: Path, clock: Clock, host: str) -> None:
        self._path = path
        self._clock = clock
        self._host = host

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        """Hold the lock for the block; raises Busy, naming the holder, if it is not free within *wait_seconds*."""
        with _opened(self._path) as descriptor:
            if not self._acquired(descriptor, wait_seconds):
                raise _busy(self._path, _read_holder(descriptor))
            with disk_errors(self._path):
                _write_holder(descriptor, Holder(what, utc_text(self._clock.now()), os.getpid(), self._host))
            try:
                yield
            finally:
                os.ftruncate(descriptor, 0)

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free, whatever the file says."""
        try:
            with _opened(self._path, create=False) as descriptor:
                return None if _take(descriptor, self._path, shared=True) else _read_holder(descriptor)
        except EnvironmentRefused as error:
            if isinstance(error.__cause__, FileNotFoundError) or not self._path.exists():
                return None  # it was never held until now, or has just been removed
            raise

    def _acquired(self, descriptor: int, wait_seconds: float) -> bool:
        deadline = time.monotonic() + max(wait_seconds, PROBE_SECONDS)
        pause = FIRST_PAUSE
        while not _take(descriptor, self._path):
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return True


class DriverLock:
    """The port `Lock` for the driver of a repository: taking it kills what an earlier driver left running.

    Children that are recorded when the lock is free were left by a driver that died (R3). *use* is entered with
    the lock: what a step keeps until it ends.
    """

    def __init__(
        self, lock: FileLock, children: Children, use: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._lock = lock
        self._children = children
        self._use = use

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        """Hold the lock for the block, leftovers killed; raises Busy, naming the holder."""
        with self._lock.hold(what, wait_seconds=wait_seconds):
            self._children.kill_leftovers()
            with self._use():
                yield

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""
        return self._lock.holder()


def remove_if_free(path: Path) -> bool:
    """Remove the lock file *path* unless it is held; a process that has just opened it must check that it exists."""
    with _opened(path) as descriptor:
        free = _take(descriptor, path)
        if free:
            path.unlink(missing_ok=True)
        return free


@contextmanager
def _opened(path: Path, *, create: bool = True) -> Iterator[int]:
    try:
        # The state folder itself is made by `create` alone, which also hides it from git.
        if path.parent.parent.name == STATE_FOLDER:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = open_lock(path, create=create)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise EnvironmentRefused(f"{path} is a link to nothing", remedy="remove the link, then repeat") from error
        raise EnvironmentRefused(
            f"{path}: no .mino folder there",
            remedy="run `irontree init` first; if it was moved: `irontree repos add` there",
        ) from error
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="check permissions and the file system") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, *, shared: bool = False, wait: bool = False) -> bool:
    try:
        return take_lock(descriptor, shared=shared, wait=wait)
    except OSError as error:
        raise EnvironmentRefused(
            f"{path}: this file system has no working flock ({error.strerror})",
            remedy="keep the repository on a local disk of Linux or macOS, or inside WSL",
        ) from error


def _write_holder(descriptor: int, holder: Holder) -> None:
    data = json.dumps({"what": holder.what, "since": holder.since, "pid": holder.pid, "host": holder.host}).encode()
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))


def _read_holder(descriptor: int) -> Holder:
    """What the holder wrote of itself; it may be just about to."""
    try:
        found = json.loads(os.pread(descriptor, HOLDER_BYTES, 0))
        return Holder(str(found["what"]), str(found["since"]), int(found["pid"]), str(found["host"]))
    except (ValueError, KeyError, TypeError):
        return Holder("another process", "", 0, "")


_LETS_GO: Final = {
    "irontree serve": "`irontree repos remove` has it release this repository, as soon as nothing is at work here"
}
"""The remedy for a lock that is held for days."""


def _busy(path: Path, holder: Holder) -> Busy:
    return Busy(
        f"busy: {holder.what} ({holder.about}; lock {path})",
        remedy=_LETS_GO.get(holder.what, "wait for it to end (`--wait`), or stop that process"),
    )
