"""Ports that tell of their calls, so that a test can look, or die, at exactly that moment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

Side = Literal["before", "after"]
Tell = Callable[[str, Side], None]


class Watched:
    """Stands for *port*; *tell* hears of each call of *methods*: its name (`append:run_started`), and the side."""

    def __init__(self, port: Any, methods: Collection[str], tell: Tell) -> None:
        self._port = port
        self._methods = methods
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._methods:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            event = getattr(arguments[0], "event", None) if arguments else None
            label = f"{name}:{event}" if event else name
            self._tell(label, "before")
            result = found(*arguments, **named)
            self._tell(label, "after")
            return result

        return call


class Killed(BaseException):
    """The driver is gone; nothing tidies up."""


def dying(side: Side, times: int = 1) -> Tell:
    """Die on this side of the first *times* calls; later ones go through."""
    left = times

    def tell(_: str, now: Side) -> None:
        nonlocal left
        if now == side and left:
            left -= 1
            raise Killed

    return tell


def dying_at(side: Side, call: int) -> Tell:
    """Die on this side of that call (from 1) alone."""
    left = call

    def tell(_: str, now: Side) -> None:
        nonlocal left
        left -= now == side
        if left == 0:
            left = -1
            raise Killed

    return tell
