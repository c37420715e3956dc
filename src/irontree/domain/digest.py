"""The digest of an event, by which the next one is chained to it (ruling R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irontree.domain.plan import canonical_digest

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent
    from irontree.domain.loop_events import LoopEvent


def event_digest(event: IssueEvent | LoopEvent) -> str:
    """SHA-256 (64 hex) of the canonical JSON of the contract block, without `reply_posted`, which may still be set."""
    return canonical_digest(event.model_dump(mode="json", exclude={"reply_posted"}))
