"""What every step needs: time, a way to stop, somebody to tell, templates."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """The present moment, timezone-aware, UTC."""
        ...


class Cancellation(Protocol):
    """Asked-to-stop flag; `threading.Event` is one."""

    def is_set(self) -> bool:
        """True once a stop was asked for."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep at most *timeout* seconds; True at once when a stop is asked for."""
        ...


class Progress(Protocol):
    """Where a step says what it is doing; a terminal, a Prefect log, or nothing."""

    def note(self, text: str) -> None:
        """One line for a person who watches."""
        ...


class Renderer(Protocol):
    """Turns a template and typed values into text."""

    def render(self, template: str, **values: object) -> str:
        """Render `templates/{template}.j2`; an undefined name is an error."""
        ...
