"""What issues and loops have in common: which events are legal in which state, and what each makes of it."""

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
    """What has the states: `an issue`."""
    nothing: str
    """What a stream without events is called."""
    legal: Mapping[S | None, frozenset[str]]
    """Names of the events that may follow, by state."""
    after: Mapping[str, S]
    """The state that an event leads to, whatever it says; one that is not here leaves the state as it is."""
    choose: Callable[[H], S | None]
    """The state that an event leads to by what it says; None: see `after`."""

    def refusal(self, state: S | None, event: H) -> str | None:
        """Why *event* may not follow; None if it may."""
        if event.event in self.legal[state]:
            return None
        where = f"{self.subject} that is {state}" if state else self.nothing
        return f"{event.event} at sequence {event.sequence} cannot follow {where}"

    def follow(self, state: S, event: H) -> S:
        """The state after *event*."""
        return self.choose(event) or self.after.get(event.event, state)
