"""Issues and comments as a forge shows them, whichever forge it is."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple


class Comment(NamedTuple):
    """A comment; `ours` if our own account wrote it, `trusted` if its author is us or has write access (R20)."""

    id: str
    body: str
    author: str
    ours: bool
    created_at: str
    url: str
    trusted: bool
    edited: bool = False
    """Whether it was edited after it was posted, which other users than its author may do."""


class Issue(NamedTuple):
    """An issue as the forge shows it; `trusted` if its author is us or has write access (R8)."""

    number: int
    title: str
    body: str
    state: Literal["open", "closed"]
    labels: tuple[str, ...]
    author: str
    trusted: bool
    url: str
    pull_request: bool = False
    """Some forges list their pull requests among the issues."""
    assignees: tuple[str, ...] = ()
    created_at: str = ""
    """By the forge's clock (ISO 8601); empty if it does not say."""


# --- The parts of an issue's text that follow its state


BEGIN: Final = "<!-- irontree:current -->"
END: Final = "<!-- irontree:end -->"
_REGION: Final = re.compile(rf"{BEGIN}[ \t]*\r?\n(?P<inner>(?:(?!{BEGIN})[\s\S])*?)^{END}", re.MULTILINE)


def without_regions(body: str) -> str:
    """The text but for what stands between our markers: what a person may not change unnoticed."""
    return _REGION.sub(f"{BEGIN}{END}", body)


def regions(body: str) -> tuple[str, ...]:
    """What stands between our markers, in order."""
    return tuple(found["inner"].replace("\r\n", "\n").strip() for found in _REGION.finditer(body))


def with_regions(body: str, current: str) -> str | None:
    """*body* with what stands between the markers in *current*; None if it has not the same markers."""
    news = [found[0] for found in _REGION.finditer(current)]
    if len(regions(body)) != len(news):
        return None
    left = iter(news)
    return _REGION.sub(lambda _: next(left), body)
