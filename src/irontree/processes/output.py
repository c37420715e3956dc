"""What a child prints: passed on line by line, digested whole, kept at both ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from irontree.domain.results import TRUNCATION_MARKER

LONGEST_LINE = 64 * 1024


class Lines:
    """Passes on what was read line by line; one that grows beyond *longest* bytes comes in pieces."""

    def __init__(self, on_line: Callable[[bytes], None], longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        for line in data.splitlines(keepends=True):
            self._line += line
            if line.endswith(b"\n"):
                self.finish()
        if len(self._line) > self._longest:  # a progress bar without line ends must not fill the memory
            self.finish()

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._line:
            line = bytes(self._line)
            self._line.clear()
            self._on_line(line)


class Output:
    """Takes the output of one child; *keep* is in bytes, half of it for the beginning and half for the end."""

    def __init__(self, keep: int, on_line: Callable[[bytes], None] | None) -> None:
        self._half = keep // 2
        self._lines = Lines(on_line) if on_line else None
        self._digest = hashlib.sha256()
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._digest.update(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._half:
            del self._tail[: -self._half]
            self._cut = True
        if self._lines:
            self._lines.feed(data)

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._lines:
            self._lines.finish()

    def text(self) -> str:
        """What was kept; a marker line stands where something was cut out."""
        marker = f"\n{TRUNCATION_MARKER}\n".encode() if self._cut else b""
        return (bytes(self._head) + marker + bytes(self._tail)).decode("utf-8", "replace")

    def digest(self) -> str:
        """SHA-256 of everything, 64 hex."""
        return self._digest.hexdigest()
