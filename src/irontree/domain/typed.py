"""What a person types: the commands that listings, forms, comments and remedies name, each written here alone.

They are the short words of the command line. Where a script is meant, the protocol's own words are printed instead
(`run`, `verify`, `checkup`): they stay as they are when a verb gets another name.
"""

from __future__ import annotations

from typing import Final

from irontree.domain.text import shell_word

NOTE: Final = "--note 'NOTE'"


def accept(number: int | None) -> str:
    """Accept the work of an issue."""
    return f"irontree accept {number}"


def reject(number: int | None) -> str:
    """Send its work back."""
    return f"irontree reject {number} {NOTE}"


def retry(number: int | None) -> str:
    """Let it be tried again, or go on after a block."""
    return f"irontree retry {number}"


def skip(number: int | None) -> str:
    """Leave it out of its loop."""
    return f"irontree skip {number}"


def answer(asked: int | str | None, words: str = "") -> str:
    """Answer what an issue or a loop asks: at the terminal, or by the *words* of a choice."""
    return " ".join(filter(None, ("irontree answer", str(asked), words and shell_word(words))))


def resume(loop_id: str | None) -> str:
    """Go on with a loop."""
    return f"irontree resume {loop_id}"


def stop(loop_id: str | None) -> str:
    """End a loop."""
    return f"irontree stop {loop_id}"


def loop(loop_id: str | None = "") -> str:
    """Show a loop, or list all."""
    return f"irontree status --loops {loop_id}".rstrip()
