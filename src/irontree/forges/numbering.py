"""Why a listing alone is not enough, and what is: the newest issues are asked for by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, TypeVar

T = TypeVar("T")

MISSES: Final = 3
"""So many numbers in a row that are nobody's end the search: deleted issues and discussions leave gaps."""


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
