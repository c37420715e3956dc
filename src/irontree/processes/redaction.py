"""What programs of others print, without secrets, before it is kept or shown anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from irontree.domain.text import without_secrets

_BEGINS = re.compile(rb"PRIVATE KEY(?: BLOCK)?-----\Z|PuTTY-User-Key-File-\d: ?[\w-]+\Z")
_ENDS = re.compile(rb"-----END|Private-MAC:")
_OF_KEY = re.compile(rb"[\s\w+/=:,.|>#*-]{0,120}|(?:Version|Comment): [^\r\n]{0,200}")
"""A line of a private key or of its headers, also with a number or a mark before it."""


class Redaction:
    """Passes on each line without secrets; of a private key that takes several lines, no line.

    A line that only says where a key begins, as in what a search finds, hides nothing of what follows.
    """

    def __init__(self, on_line: Callable[[bytes], None], values: Iterable[str]) -> None:
        self._on_line = on_line
        self._values = tuple(values)
        self._in_key = False

    def hear(self, line: bytes) -> None:
        """Take one line."""
        if self._in_key and _OF_KEY.fullmatch(line.rstrip()):
            self._in_key = not _ENDS.search(line)
            return
        self._in_key = bool(_BEGINS.search(line.rstrip())) and not _ENDS.search(line)
        self._on_line(redacted(line.decode("utf-8", "surrogateescape"), self._values))


def redacted(text: str, values: Iterable[str]) -> bytes:
    """*text* without what looks like a secret, and without *values*."""
    return without_secrets(text, values).encode("utf-8", "surrogateescape")
