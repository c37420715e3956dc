"""Who has write access, as a process remembers it that runs for days."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from irontree.ports import Clock

_BELIEVED: Final = timedelta(minutes=1)


class KnownWriters:
    """What a forge said of accounts (R20). An answer counts for a minute: write access is given and taken away."""

    def __init__(self, clock: Clock, ask: Callable[[str], bool]) -> None:
        self._clock = clock
        self._ask = ask
        self._known: dict[str, tuple[datetime, bool]] = {}

    def includes(self, login: str) -> bool:
        """Whether *login* has write access, or had it less than a minute ago. A clock that was set makes it ask."""
        moment, may_write = self._known.get(login, (None, False))
        if moment and abs(self._clock.now() - moment) <= _BELIEVED:
            return may_write
        return self.ask(login)

    def ask(self, login: str) -> bool:
        """Whether *login* has write access now."""
        self._known[login] = (self._clock.now(), self._ask(login))
        return self._known[login][1]
