"""Which issues hold a marker: a complete listing, once, and from then on what changed since.

A plan of a hundred tasks asks a hundred times, and a repository may have thousands of issues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from irontree.forges.numbering import behind
from irontree.forges.text import holds_line

_OVERLAP: Final = timedelta(minutes=5)
"""Listings may show a later change before an earlier one."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An issue or pull request as a listing shows it."""

    number: int
    body: str
    updated_at: datetime


class IssueIndex:
    """Bodies by number.

    *listed* yields what changed since a moment of the forge's clock (None: everything, in any state, pull requests
    too) and raises if it cannot come to the end; *read* asks for one number.
    """

    def __init__(
        self, listed: Callable[[datetime | None], Iterable[Listed]], read: Callable[[int], Listed | None]
    ) -> None:
        self._listed = listed
        self._read = read
        self._bodies: dict[int, str] = {}
        self._newest: datetime | None = None

    def numbers(self, marker: str) -> tuple[int, ...]:
        """Candidates that held *marker* as a line of its own when they were seen last, ascending; read them anew."""
        since = self._newest - _OVERLAP if self._newest else None
        for listed in tuple(self._listed(since)):
            self._remember(listed)
            self._newest = max(self._newest or listed.updated_at, listed.updated_at)
        for created in behind(max(self._bodies, default=0), self._read):
            self._remember(created)
        return tuple(number for number in sorted(self._bodies) if holds_line(self._bodies[number], marker))

    def _remember(self, listed: Listed) -> None:
        self._bodies[listed.number] = listed.body
