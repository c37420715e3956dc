"""Helpers for tests with real processes."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from irontree.domain.child import Child
from irontree.processes.children import ChildProcesses
from irontree.processes.family import ProcessLimits

PATIENCE_SECONDS = 30
NEVER = threading.Event()
AMPLE = ProcessLimits(60)


class MemoryRegistry:
    """The port `Registry` in memory; `history` is everything that was ever recorded."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}
        self.history: list[Child] = []

    def record(self, child: Child) -> None:
        self.children[child.pid] = child
        self.history.append(child)

    def forget(self, pid: int) -> None:
        self.children.pop(pid, None)

    def recorded(self) -> tuple[Child, ...]:
        return tuple(self.children.values())


def children(*, grace_seconds: float = 0.2) -> ChildProcesses:
    return ChildProcesses(MemoryRegistry(), grace_seconds=grace_seconds)


class Heard:
    """A progress that remembers, and can ring a bell at a line."""

    def __init__(self, bell: threading.Event | None = None, at: str = "") -> None:
        self.lines: list[str] = []
        self._bell = bell
        self._at = at

    def note(self, text: str) -> None:
        self.lines.append(text)
        if self._bell and self._at in text:
            self._bell.set()


class Witness:
    """A pipe that processes hold open: it tells, without waiting, whether one of them still lives."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "witness"
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def take(self) -> str:
        """Shell words after which the shell, and all that it starts, holds the pipe; `echo up >&3` tells us."""
        return f"exec 3>'{self.path}'"

    @property
    def hold(self) -> str:
        """The same, and we are told at once."""
        return f"{self.take}; echo up >&3"

    def says_all_are_gone(self) -> bool:
        """Whether somebody held the pipe, and nobody does any more."""
        assert os.read(self._reader, 3) == b"up\n", "nobody ever held the pipe"
        try:
            return os.read(self._reader, 1) == b""
        except BlockingIOError:
            return False

    def wait_until_held(self) -> None:
        with self.path.open("wb"):  # a writer of our own: without one, reading would end at once
            assert self._next(3) == b"up\n"

    def wait_until_all_are_gone(self) -> None:
        assert self._next(1) == b""

    def _next(self, size: int) -> bytes:
        ready, _, _ = select.select([self._reader], [], [], PATIENCE_SECONDS)
        assert ready, "nobody came, or somebody did not go"
        return os.read(self._reader, size)

    def close(self) -> None:
        os.close(self._reader)
