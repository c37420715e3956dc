"""A program that was started, as it is recorded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Child:
    """A recorded program that we started. Equal *boot* and *started* mean that *pid* is still the same process."""

    pid: int
    pgid: int
    started: str
    boot: str
    mark: str
    command: str
    owner: int = 0
    """The process that started it; *owner_started* tells whether it is still the same one."""
    owner_started: str = ""
    engine: str = ""
    """What confines it: `bubblewrap`, or the engine of a container that is named after the mark; empty for nothing."""
