"""State machine tables, for issues and loops: the legal events by state, and the state after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from irontree.domain.values import Event

S = TypeVar("S", bound=str)
H = TypeVar("H", bound=Event)


@dataclass(frozen=True, slots=True)
class Machine(Generic[S, H]):
    """A state machine as tables; the state None is that of a stream without events."""

    subject: str
    """The subject in messages: `an issue`."""
    nothing: str
    """The name of a stream without events."""
    legal: Mapping[S | None, frozenset[str]]
    """Names of the events that may follow, by state."""
    after: Mapping[str, S]
    """The state after each event, whatever its fields; an event not listed keeps the state."""
    choose: Callable[[H], S | None]
    """The state after an event by its fields; `None` defers to `after`."""

    def refusal(self, state: S | None, event: H) -> str | None:
        """Why *event* may not follow, or `None` if it may."""
        if event.event in self.legal[state]:
            return None
        where = f"{self.subject} that is {state}" if state else self.nothing
        return f"{event.event} at sequence {event.sequence} cannot follow {where}"

    def follow(self, state: S, event: H) -> S:
        """The state after *event*."""
        return self.choose(event) or self.after.get(event.event, state)
