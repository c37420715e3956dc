"""What an agent asked leave for and was denied, for the person who can add the rule (`agent.permissions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irontree.domain.permissions import entry_of, missing_rule
from irontree.domain.plan import PermissionRule
from irontree.ports import Stream
from irontree.services.projections.history import last_of
from irontree.services.projections.views import DeniedView


def denied_of(stream: Stream) -> DeniedView | None:
    """What was denied in the newest attempt that ended; None if nothing was."""
    denied = _words(stream)
    return DeniedView(denied, tuple(map(entry_of, rules_for_denied(stream)))) if denied else None


def rules_for_denied(stream: Stream) -> tuple[PermissionRule, ...]:
    """The rules that would have allowed it, and nothing else."""
    return tuple(dict.fromkeys(rule for words in _words(stream) if (rule := missing_rule(words))))


def words_for_rules(rules: Sequence[PermissionRule]) -> tuple[str, ...]:
    """Each rule in short: the kind of tool, and what it is about."""
    return tuple(f"{rule.tool} {rule.match}" for rule in rules)


def denied_lines(stream: Stream) -> tuple[str, ...]:
    """What was denied, a line for each."""
    return tuple(f"the agent asked for leave and was denied: {words}" for words in _words(stream))


def _words(stream: Stream) -> tuple[str, ...]:
    ended = last_of(stream, "run_completed", "run_interrupted")
    agent = ended.meta.get("agent") if ended else None
    return tuple(map(str, agent.get("denied", ()))) if isinstance(agent, Mapping) else ()
