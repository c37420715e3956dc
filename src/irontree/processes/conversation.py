"""Talking with a child while it works: lines of its stdout in, lines for its stdin out."""

from __future__ import annotations

from typing import Protocol


class Conversation(Protocol):
    """Our half of a talk; what it returns is written to the child's stdin: whole lines, or nothing.

    Stdin stays open until the talk is *over*; a child that has not ended a time of grace later is asked to end.
    """

    @property
    def over(self) -> bool:
        """Whether nothing will be said any more, by either side."""
        ...

    def begin(self) -> bytes:
        """Speak first."""
        ...

    def hear(self, line: bytes) -> bytes:
        """Answer one line of the child's stdout, which ends as it came."""
        ...

    def stop(self) -> bytes:
        """Ask the child to stop: it is about to be ended, and has a time of grace to end the talk itself."""
        ...
