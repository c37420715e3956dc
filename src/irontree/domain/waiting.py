"""Blocks that time alone lifts: when it is worth while to try again (`not_before`, R12)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from irontree.domain.moments import moment

FIRST_WAIT: Final = timedelta(minutes=5)
LONGEST_WAIT: Final = timedelta(hours=4)
COMMENTS_EVERY: Final = timedelta(seconds=30)
"""How often comments are looked at while a question is open."""
LONGEST_SILENCE: Final = timedelta(minutes=15)
TIMER: Final = "timer"
"""Who answers when the time has come, and through which channel."""


def next_try(now: datetime, waits: int, announced: datetime | None = None) -> datetime:
    """The time to try again: the *announced* one, else twice as long with each of *waits* in a row before."""
    if announced is not None and announced > now:
        return announced
    return now + min(LONGEST_WAIT, FIRST_WAIT * (1 << min(waits, 16)))


def next_look(
    now: datetime, failures: int, announced: datetime | None = None, *, every: timedelta = COMMENTS_EVERY
) -> datetime:
    """When to look at comments again: after *failures* in a row later each time, and not before what the forge said."""
    if announced is not None and announced > now:
        return announced
    return now + max(every, min(LONGEST_SILENCE, every * (1 << min(failures, 16))))


def is_due(not_before: str | None, now: datetime) -> bool:
    """Whether the time (ISO 8601, as an event has it) has come; False for what is no time."""
    left = time_left(not_before, now)
    return left is not None and not left


def time_left(not_before: str | None, now: datetime) -> timedelta | None:
    """How long until the time (ISO 8601, as an event has it), zero once it has come; None for what is no time."""
    at = moment(not_before)
    return max(at - now, timedelta(0)) if at else None
