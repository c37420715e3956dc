"""Text by people and programs, made harmless for a terminal: nothing in it moves a cursor or hides a line."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
_LINE_ENDS: Final = "\r\n|[\r\x0b\x0c\x85\u2028\u2029]"
# Control characters, and those that show text in another order than it is in.
_UNWANTED: Final = "[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


def printable(text: str) -> str:
    """*text* without escape sequences and control characters; lines and tabs stay."""
    if text.isprintable():  # most are: the patterns, whose sets are large, are compiled when there is one that is not
        return text
    return re.sub(_UNWANTED, "", re.sub(_LINE_ENDS, "\n", re.sub(_ESCAPES, "", text)))


def one_line(text: str) -> str:
    """All of *text* in one line."""
    return " ".join(printable(text).split())


def short_sha(code_ref: str | None) -> str:
    """A commit as people name it; empty for none."""
    if code_ref is None or code_ref == "not_applicable":
        return ""
    return code_ref[:7]
