"""Issues and comments as a forge shows them, whichever forge it is."""

from __future__ import annotations

from typing import Literal, NamedTuple


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
