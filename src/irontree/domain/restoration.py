"""Restore an issue's events from comments by older tools, and name missing ones in a gap event (R13).

Before 1.12 the comment of a finished issue held them all, before 1.10 each event had a comment of its own. Both are
fallbacks: the second counts only where the first is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from irontree.domain.events import IssueEvent, Record, SequenceGapDetected
from irontree.domain.machine import carried_over, evolve, replay
from irontree.domain.state import TaskState
from irontree.errors import IllegalTransition


def gap_event(state: TaskState, sequence: int, found: Iterable[int], missing: Iterable[int]) -> SequenceGapDetected:
    """The gap event at *sequence*; *state* is what could be replayed before the first missing one."""
    return SequenceGapDetected(
        **carried_over(state, SequenceGapDetected),
        sequence=sequence,
        found_sequences=tuple(found),
        missing_sequences=tuple(missing),
        highest_replayable_sequence=state.sequence,
    )


# --- Events in comments by older tools


RestoredFrom = Literal["summary comment", "event comments"]
EventsSaid = tuple[Record[IssueEvent], ...]
"""The events in one comment."""


@dataclass(frozen=True, slots=True)
class RestoredStream:
    """The events to write to an empty log; the last is a gap event if something is *missing*.

    `diverging` are the sequences that comments contradict each other about: they count as missing.
    """

    source: RestoredFrom
    records: EventsSaid
    missing: tuple[int, ...]
    diverging: tuple[int, ...]


def restored(comments: Sequence[EventsSaid]) -> RestoredStream | None:
    """The events to write, from the comments of one issue; `None` if its first event is not among them."""
    summaries = [said for said in comments if _is_summary(said)]
    single = [said for said in comments if not _is_summary(said)]
    source: RestoredFrom = "summary comment" if summaries else "event comments"
    chosen = [record for said in summaries or single for record in said]
    diverging = _diverging([record for said in comments for record in said])
    usable = _legal([record for record in _once(chosen) if record.event.sequence not in diverging])
    highest = max((record.event.sequence for record in chosen), default=0)
    found = replay(usable, highest_sequence=highest)
    if found.state is None:
        return None
    gap = _gap(found.state, usable, found.missing, highest)
    return RestoredStream(source, (*usable, *gap), found.missing, tuple(sorted(diverging)))


def _is_summary(said: EventsSaid) -> bool:
    """Whether these are the comment of a finished issue before 1.12: every event, from the first to the last."""
    return any(record.event.sequence == 1 for record in said) and any(
        record.event.event == "checkup_done" for record in said
    )


def _once(records: Iterable[Record[IssueEvent]]) -> EventsSaid:
    by_sequence = {record.event.sequence: record for record in records}
    return tuple(by_sequence[sequence] for sequence in sorted(by_sequence))


def _diverging(records: Iterable[Record[IssueEvent]]) -> frozenset[int]:
    said: dict[int, IssueEvent] = {}
    records = tuple(records)
    for record in records:
        said.setdefault(record.event.sequence, record.event)
    return frozenset(r.event.sequence for r in records if said[r.event.sequence] != r.event)


def _legal(records: EventsSaid | list[Record[IssueEvent]]) -> EventsSaid:
    """The events without the first that is illegal where it is: those after it follow a gap."""
    state: TaskState | None = None
    for record in records:
        if record.event.sequence != (state.sequence + 1 if state else 1):
            break
        try:
            state = evolve(state, record)
        except IllegalTransition:
            return tuple(other for other in records if other is not record)
    return tuple(records)


def _gap(state: TaskState, usable: EventsSaid, missing: tuple[int, ...], highest: int) -> EventsSaid:
    if not missing:
        return ()
    found = (record.event.sequence for record in usable)
    return (Record(gap_event(state, highest + 1, found, missing), {"reason": "its comments do not hold every event"}),)
