r"""What every adapter does to text before it sends it, and how a marker is told from a quotation of it.

A forge keeps Unicode text with `\n` line ends. What it cannot keep goes into what it can before it is sent, the same
for every adapter: CRLF and lone CR become `\n`, NUL and lone surrogates `\N{REPLACEMENT CHARACTER}`.
"""

from __future__ import annotations

import re
from typing import Final

from irontree.errors import RemoteFailed

_NEVER_KEPT: Final = re.compile("[\0\ud800-\udfff]")


def as_kept(text: str) -> str:
    """*text* as a forge keeps it."""
    return _NEVER_KEPT.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """A title: one line, single spaces."""
    return " ".join(as_kept(text).split())


def holds_line(body: str, marker: str) -> bool:
    """Whether *marker* is a line of its own in *body*; a quotation within a line is none."""
    return marker.strip() in map(str.strip, body.split("\n"))


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
