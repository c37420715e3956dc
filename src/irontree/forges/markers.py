r"""Text that goes to a forge, and how an issue or comment of ours is found again by its marker.

A forge keeps Unicode text with `\n` line ends. What it cannot keep goes into what it can before it is sent, the same
for every adapter: CRLF and lone CR become `\n`, NUL and lone surrogates `\N{REPLACEMENT CHARACTER}`.

A plan of a hundred tasks asks a hundred times, and a repository may have thousands of issues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, TypeVar

from irontree.domain.issues import Issue
from irontree.errors import RemoteFailed

_NEVER_KEPT: Final = re.compile("[\0\ud800-\udfff]")


def as_kept(text: str) -> str:
    """*text* as a forge keeps it."""
    return _NEVER_KEPT.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """A title: one line, single spaces."""
    return " ".join(as_kept(text).split())


def as_sent(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What of an issue or pull request is given, its title and body as a forge keeps them."""
    kept = {"title": one_line, "body": as_kept}
    return {key: kept[key](value) if key in kept else value for key, value in changes.items()}


def holds_one_of(body: str, markers: frozenset[str]) -> bool:
    """Whether one of *markers* is a line of its own in *body*; a quotation within a line is none."""
    return any(line.strip() in markers for line in body.split("\n"))


def as_lines(markers: Iterable[str]) -> frozenset[str]:
    """Markers as `holds_one_of` compares them."""
    return frozenset(marker.strip() for marker in markers)


def require_fits(text: str, limit: int, what: str) -> None:
    """Raise RemoteFailed, before anything is sent, for a text that the forge would refuse or cut."""
    if len(text) > limit:
        raise RemoteFailed(
            f"{what} has {len(text):,} characters; the forge takes {limit:,}",
            remedy="make it shorter, or put its longest part into a file of the repository",
        )


def shortened(text: str, limit: int) -> str:
    """*text* on one line, cut to *limit* characters with a mark at its end."""
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


# --- Reading the newest issues by number, because listings lag behind


T = TypeVar("T")

MISSES: Final = 3
"""How many unused numbers in a row end the search: deleted issues and discussions leave gaps."""


def behind(highest: int, read: Callable[[int], T | None]) -> Iterator[T]:
    """What has a number above *highest*, the last one listed: a listing may lag behind what was just created."""
    misses = 0
    for number in count(highest + 1):
        found = read(number)
        misses = 0 if found is not None else misses + 1
        if found is not None:
            yield found
        if misses == MISSES:
            return


# --- The index of issues by marker: one complete listing, then only what changed since


class LineIndex:
    """Texts by number, and which of them hold a line: asking takes no longer for many texts than for few."""

    def __init__(self) -> None:
        self._lines: dict[int, frozenset[str]] = {}
        self._holders: dict[str, set[int]] = {}
        self.highest = 0
        """The highest number that was ever put in."""

    def put(self, number: int, text: str) -> None:
        """Put in the text of that number, in place of an earlier one."""
        self.drop(number)
        self._lines[number] = lines = frozenset(map(str.strip, text.split("\n")))
        self.highest = max(self.highest, number)
        for line in lines:
            self._holders.setdefault(line, set()).add(number)

    def drop(self, number: int) -> None:
        """Forget the text of that number, if there is one."""
        for line in self._lines.pop(number, ()):
            self._holders[line].discard(number)
            if not self._holders[line]:
                del self._holders[line]

    def holding(self, markers: frozenset[str]) -> list[int]:
        """Numbers of the texts that hold one of *markers* (`as_lines`) as a line of its own, ascending."""
        return sorted({number for marker in markers for number in self._holders.get(marker, ())})


_OVERLAP: Final = timedelta(minutes=5)
"""Listings may show a later change before an earlier one."""


@dataclass(frozen=True, slots=True)
class ListedIssue:
    """An issue or pull request as a listing shows it."""

    number: int
    body: str
    updated_at: datetime


class IssueIndex:
    """Bodies by number.

    *listed* yields what changed since a moment of the forge's clock (`None` for all, in any state, pull requests
    too) and raises if it cannot come to the end; *read* asks for one number.
    """

    def __init__(
        self, listed: Callable[[datetime | None], Iterable[ListedIssue]], read: Callable[[int], ListedIssue | None]
    ) -> None:
        self._listed = listed
        self._read = read
        self._bodies = LineIndex()
        self._newest: datetime | None = None
        self._unread: set[int] = set()
        self._has_looked = False

    def find(self, markers: Iterable[str], read_issue: Callable[[int], Issue | None]) -> tuple[Issue, ...]:
        """Issues whose body holds one of *markers* as a line of its own, lowest number first, each read anew."""
        since = self._newest - _OVERLAP if self._newest else None
        for listed in tuple(self._listed(since)):
            self._remember(listed)
            self._newest = max(self._newest or listed.updated_at, listed.updated_at)
        for created in behind(self._bodies.highest, self._read):
            self._remember(created)
        self._has_looked = True
        return self._holding(markers, read_issue)

    def add(self, created: ListedIssue) -> None:
        """Remember an issue that we created. What others created since the last look has a number between."""
        if self._has_looked:
            self._unread.update(range(self._bodies.highest + 1, created.number))
        self._remember(created)

    def find_before(
        self, number: int, markers: Iterable[str], read_issue: Callable[[int], Issue | None]
    ) -> tuple[Issue, ...]:
        """The same among lower numbers than *number*, one of ours: only those that nobody has looked at are asked for.

        Numbers are given in the order of creation. An older issue that was edited since the last look is not noticed.
        """
        if not self._has_looked:
            return tuple(issue for issue in self.find(markers, read_issue) if issue.number < number)
        for unread in sorted(self._unread):
            if listed := self._read(unread):
                self._remember(listed)
            self._unread.discard(unread)
        return self._holding(markers, read_issue, below=number)

    def _holding(
        self, markers: Iterable[str], read_issue: Callable[[int], Issue | None], below: int | None = None
    ) -> tuple[Issue, ...]:
        wanted = as_lines(markers)
        held = (number for number in self._bodies.holding(wanted) if below is None or number < below)
        return tuple(issue for issue in map(read_issue, held) if issue and holds_one_of(issue.body, wanted))

    def _remember(self, listed: ListedIssue) -> None:
        self._bodies.put(listed.number, listed.body)
