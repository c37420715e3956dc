"""What a child prints: passed on line by line, digested whole, kept at both ends."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from irontree.domain.results import TRUNCATION_MARKER

LONGEST_LINE = 64 * 1024


class Output:
    """Takes the output of one child; *keep* is in bytes, half of it for the beginning and half for the end."""

    def __init__(self, keep: int, on_line: Callable[[bytes], None] | None) -> None:
        self._half = keep // 2
        self._on_line = on_line
        self._digest = hashlib.sha256()
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = False
        self._line = bytearray()
        self.heard_at = time.monotonic()

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self.heard_at = time.monotonic()
        self._digest.update(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._half:
            del self._tail[: -self._half]
            self._cut = True
        if self._on_line is not None:
            self._pass_on(data, self._on_line)

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._on_line is not None and self._line:
            self._on_line(bytes(self._line))
        self._line.clear()

    def text(self) -> str:
        """What was kept; a marker line stands where something was cut out."""
        marker = f"\n{TRUNCATION_MARKER}\n".encode() if self._cut else b""
        return (bytes(self._head) + marker + bytes(self._tail)).decode("utf-8", "replace")

    def digest(self) -> str:
        """SHA-256 of everything, 64 hex."""
        return self._digest.hexdigest()

    def _pass_on(self, data: bytes, on_line: Callable[[bytes], None]) -> None:
        for line in data.splitlines(keepends=True):
            self._line += line
            if line.endswith(b"\n"):
                on_line(bytes(self._line))
                self._line.clear()
        if len(self._line) > LONGEST_LINE:  # a progress bar without line ends must not fill the memory
            self.finish()
