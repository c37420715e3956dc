"""What an agent asked leave for and was denied, for the person who can add the rule (`agent.permissions`)."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.domain.permissions import missing_rule
from irontree.ports import Stream
from irontree.services.projections.history import last_of
from irontree.services.projections.views import DeniedView


def denied_of(stream: Stream) -> DeniedView | None:
    """What was denied in the newest attempt that ended; None if nothing was."""
    ended = last_of(stream, "run_completed", "run_interrupted")
    agent = ended.meta.get("agent") if ended else None
    denied = tuple(map(str, agent.get("denied", ()))) if isinstance(agent, Mapping) else ()
    rules = tuple(dict.fromkeys(rule for words in denied if (rule := missing_rule(words))))
    return DeniedView(denied, rules) if denied else None


def denied_lines(stream: Stream) -> tuple[str, ...]:
    """The same, a line for each."""
    denied = denied_of(stream)
    return tuple(f"the agent asked for leave and was denied: {words}" for words in denied.words) if denied else ()
