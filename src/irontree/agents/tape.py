"""What a recorded session looks like on disk: `DIR/TASK_KEY/ATTEMPT.*`, beside the prepared patches of `replay`.

`N.session.jsonl`   one object a line: `after` (seconds from the start) and what was `heard` on stdin, `said` on
                    stdout or `complained` on stderr, a line of text each
`N.patch`           what was different in the work tree at the end
`N.result.json`     exit code, seconds and command; without it, the session was cut off
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from irontree.processes.relay import Channel

CHANNELS: Final[tuple[Channel, ...]] = ("heard", "said", "complained")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a session, without its end; *after* in seconds."""

    after: float
    channel: Channel
    text: str


@dataclass(frozen=True, slots=True)
class Recording:
    """Where one session is: the files beginning with its attempt's number."""

    folder: Path
    attempt: int

    @property
    def session(self) -> Path:
        """Its lines."""
        return self.folder / f"{self.attempt}.session.jsonl"

    @property
    def patch(self) -> Path:
        """Its changes."""
        return self.folder / f"{self.attempt}.patch"

    @property
    def result(self) -> Path:
        """Its end."""
        return self.folder / f"{self.attempt}.result.json"

    def lines(self) -> Iterator[Line]:
        """What was heard and said, in that order; a last line that was cut off is left out."""
        for text in self.session.read_text(encoding="utf-8").splitlines():
            try:
                found = json.loads(text)
            except ValueError:
                return
            channel = next(channel for channel in CHANNELS if channel in found)
            yield Line(found["after"], channel, found[channel])

    def exit_code(self) -> int | None:
        """How its program ended; None if the session was cut off."""
        if not self.result.is_file():
            return None
        found: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        return int(found["exit_code"])


class Tape:
    """Writes lines down as they come, from several threads."""

    def __init__(self, file: TextIO, secrets: Sequence[str]) -> None:
        self._file = file
        self._secrets = secrets
        self._began = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return round(time.monotonic() - self._began, 3)

    def note(self, channel: Channel, line: bytes) -> None:
        """Write one line down, its secrets hidden."""
        text = line.decode("utf-8", "replace").removesuffix("\n")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        with self._lock:
            if self._file.closed:  # said to a program that has ended
                return
            self._file.write(f"{json.dumps({'after': self.seconds, channel: text}, ensure_ascii=False)}\n")
            self._file.flush()
