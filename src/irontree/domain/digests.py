"""Event digests, and the chain that they form in a stream (R10).

The chain detects accidents (an edited, lost or swapped file), not attackers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from irontree.domain.events import E, Record
from irontree.domain.plan import canonical_digest
from irontree.domain.values import Event


def event_digest(event: Event) -> str:
    """SHA-256 (64 hex) of the canonical JSON of the contract block, without `reply_posted`, which may still be set."""
    return canonical_digest(event.model_dump(mode="json", exclude={"reply_posted"}))


# --- The digest chain of the log (R10): each event carries the digest of the one before it


class ChainBreak(NamedTuple):
    """A finding about one event: `unchained` is a warning (another tool wrote it), `mismatch` an error."""

    sequence: int
    kind: Literal["unchained", "mismatch"]


def digest_chain(records: Sequence[Record[E]]) -> tuple[ChainBreak, ...]:
    """Breaks in a stream's chain, in sequence order; an event after a gap has no predecessor to compare with."""
    breaks = []
    for before, record in pairwise(records):
        sequence = record.event.sequence
        if before.event.sequence != sequence - 1:
            continue
        claimed = record.meta.get("previous")
        if claimed is None:
            breaks.append(ChainBreak(sequence, "unchained"))
        elif claimed != event_digest(before.event):
            breaks.append(ChainBreak(sequence, "mismatch"))
    return tuple(breaks)
