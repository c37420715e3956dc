"""What a step says, as lines of its run's log: bounded, without secrets, and never silent for long."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from irontree.domain.credentials import secret_values, without_secrets

WHOLE: Final = 1000
"""Lines of one step that are all shown; Prefect keeps each in its database. The transcript has everything."""
SAMPLE_EVERY: Final = 10.0
"""Seconds between lines that are shown beyond that."""
LONGEST: Final = 1000
"""Characters of a line."""
SILENCE: Final = 60.0
"""Seconds after which a step that says nothing is said to be at work."""

Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


class LogProgress:
    """The port `Progress` for one step of a flow run; called from several threads."""

    def __init__(self, logger: Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._now = now
        self._lock = threading.Lock()
        self._secrets = secret_values(os.environ)
        self._began = self._heard = self._shown = now()
        self._lines = self._left_out = 0

    def note(self, text: str) -> None:
        """One line; of very many only one now and then."""
        with self._lock:
            self._heard = self._now()
            self._lines += 1
            if self._lines > WHOLE and self._heard - self._shown < SAMPLE_EVERY:
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        if left_out:
            self._say(f"... {left_out} more lines are in the transcript alone")
        self._say(without_secrets(text, self._secrets)[:LONGEST])

    def say_if_silent(self) -> None:
        """Say for how long the step has been at work, if nothing else was shown for a while."""
        now = self._now()
        if now - self._shown < SILENCE:
            return
        quiet = "" if self._heard == self._began else f", the last line came {_span(now - self._heard)} ago"
        self._say(f"at work for {_span(now - self._began)}{quiet}")

    def _say(self, text: str) -> None:
        self._shown = self._now()
        self._logger.info(text)


@asynccontextmanager
async def never_silent(progress: LogProgress, every: float = SILENCE / 4) -> AsyncIterator[None]:
    """Have *progress* say for the block that the step is at work, when it is silent; looks *every* so many seconds."""

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            progress.say_if_silent()

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


def _span(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {left} min"
    return f"{minutes} min" if minutes else f"{rest} s"
