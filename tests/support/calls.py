"""What the doubles of Gitea and GitHub were asked: requests by method and route, to compare and to show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

_PLACES = (
    (re.compile(r"^(?:/api/v1)?/repos/[^/ ]+/[^/ ]+"), ""),
    (re.compile(r"/[0-9a-f]{40}(?=[/ ]|$)"), "/SHA"),
    (re.compile(r"/labels/[^/ ]+"), "/labels/L"),
    (re.compile(r"/collaborators/[^/ ]+"), "/collaborators/WHO"),
    (re.compile(r"/\d+(?=[/ ]|$)"), "/N"),
)


class Counting(Protocol):
    """A double that keeps what it was asked, in order."""

    def asked(self) -> Iterable[str]:
        """`METHOD path` of every request; one that an ETag answered ends in ` 304`."""
        ...


@dataclass(frozen=True)
class Calls:
    """Requests by method and route: `GET /issues/N` is any issue, `GET /` the repository itself."""

    made: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.made.total()

    @property
    def free(self) -> int:
        """Those of them that an ETag answered: they cost nothing of GitHub's limit."""
        return sum(number for route, number in self.made.items() if route.endswith(" 304"))

    def __str__(self) -> str:
        """A table, the most frequent first."""
        rows = sorted(self.made.items(), key=lambda row: (-row[1], row[0]))
        return "\n".join([f"{self.total:4} in all", *(f"{number:4} {route}" for route, number in rows)])


@contextmanager
def counted(server: Counting) -> Iterator[Calls]:
    """Count the requests of the block: the value is complete at its end."""
    before, calls = len([*server.asked()]), Calls()
    try:
        yield calls
    finally:
        calls.made.update(map(_route, [*server.asked()][before:]))


def _route(request: str) -> str:
    method, _, path = request.partition(" ")
    for pattern, name in _PLACES:
        path = pattern.sub(name, path)
    return f"{method} {path or '/'}"
