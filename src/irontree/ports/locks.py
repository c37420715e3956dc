"""Who is at work, and what they started (ruling R3)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: shown to people, never used to decide liveness (ruling R3)."""

    what: str
    """For example `issue-12, run` or a loop id."""
    since: str
    pid: int
    """0 for one that wrote nothing of itself."""
    host: str

    @property
    def about(self) -> str:
        """Which process, where, since when; what is to be said of one that left no name."""
        if not self.pid:
            return "it left no name; `fuser` tells who has the file open"
        return f"process {self.pid} on {self.host}, since {self.since}"


class Lock(Protocol):
    """A kernel-held exclusive lock: the driver lock of a repository, or a loop's lease."""

    def hold(self, what: str, *, wait_seconds: float = 0) -> AbstractContextManager[None]:
        """Hold the lock for the block; raises Busy (naming the holder) if it is not free within *wait_seconds*."""
        ...

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""
        ...


@dataclass(frozen=True, slots=True)
class LeftLease:
    """A lease that nobody holds any more: of which loop, if that can be read, and in words."""

    loop_id: str | None
    words: str


class Lease(Lock, Protocol):
    """The lease of the active loop; beside it `active.lock` for people and other tools (protocol, Active Lease; R3)."""

    def foreign(self) -> str | None:
        """Whose loop is active, in words, if another tool or host says so and is believed to live."""
        ...

    def stale(self) -> LeftLease | None:
        """What another tool or host left behind: to be taken over once somebody confirmed that."""
        ...

    def left(self) -> LeftLease | None:
        """What one of our own processes left behind, which the kernel says is gone: nobody has to confirm that."""
        ...

    def override(self) -> None:
        """Remove a stale one of another tool or host; any other stays."""
        ...


class RunLock(Protocol):
    """The contract's `.mino/run.lock`: information for people and other tools; liveness is the driver lock's (R3)."""

    def write(self, task_key: str, issue_number: int) -> None:
        """Say that this issue is being worked on."""
        ...

    def remove(self) -> None:
        """Say that nothing is, if we said so; no error if nothing was said, or if another tool says it."""
        ...

    def stale(self) -> str | None:
        """Who wrote it, in words, if that was another tool or host longer ago: to be overridden once confirmed."""
        ...

    def override(self) -> None:
        """Remove a stale one of another tool or host; any other stays."""
        ...

    def foreign(self) -> str | None:
        """Who holds it, in words, if another tool or host wrote it less than the stale threshold ago."""
        ...


@dataclass(frozen=True, slots=True)
class Child:
    """A program that we started, as recorded. Equal *boot* and *started* mean that *pid* is still the same one."""

    pid: int
    pgid: int
    started: str
    boot: str
    mark: str
    command: str
    owner: int = 0
    """The process that started it, of which *owner_started* tells whether it is still the same one."""
    owner_started: str = ""
    engine: str = ""
    """The program that runs it in a container, which is named after the mark; empty: it is a process of ours."""


class Children(Protocol):
    """The processes that an earlier driver of this repository left behind (ruling R3)."""

    def kill_leftovers(self) -> int:
        """Kill those that are recorded and still the same process; how many there were."""
        ...
