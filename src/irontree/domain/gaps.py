"""The event that names missing sequences (ruling R13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from irontree.domain.events import SequenceGapDetected

if TYPE_CHECKING:
    from irontree.domain.state import TaskState

_COPIED: Final = (
    "task_key",
    "issue_number",
    "spec_revision",
    "approved_revision",
    "current_stage",
    "next_stage",
    "workflow_entry_state",
    "attempt_count",
    "max_retry_count",
    "code_publication_state",
)


def gap_event(state: TaskState, sequence: int, found: Iterable[int], missing: Iterable[int]) -> SequenceGapDetected:
    """The gap event at *sequence*; *state* is what could be replayed before the first missing one."""
    return SequenceGapDetected(
        **{name: getattr(state, name) for name in _COPIED},
        sequence=sequence,
        found_sequences=tuple(found),
        missing_sequences=tuple(missing),
        highest_replayable_sequence=state.sequence,
    )
