"""When a child is stopped before its own end, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from irontree.ports import Cancellation

SHELL = "/bin/sh"
# Descendants inherit it, also those that left the process group (the way of Jenkins' process tree killer).
MARK = "IRONTREE_CHILD"

Ended = Literal["exited", "timeout", "stalled", "cancelled", "not_started"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds in all, seconds without output, and whether a stop is asked for."""

    wall_seconds: float
    stall_seconds: float | None = None
    cancel: Cancellation | None = None
