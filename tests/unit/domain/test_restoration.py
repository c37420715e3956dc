"""Whatever part of a history the comments hold, what is restored is legal, and nothing is passed over in silence."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.events import Record, SequenceGapDetected
from irontree.domain.machine import replay
from irontree.domain.restoration import restored
from irontree.domain.state import Phase
from tests.unit.domain.histories import reach

DONE = reach(Phase.DONE).records


@st.composite
def comments(draw) -> list[tuple[Record, ...]]:
    """Some of the events of a finished issue, in any order, in any number of comments."""
    kept = draw(st.lists(st.sampled_from(DONE), unique_by=lambda record: record.event.sequence))
    cuts = sorted(draw(st.lists(st.integers(0, len(kept)), max_size=4)))
    bounds = [0, *cuts, len(kept)]
    return [tuple(kept[start:end]) for start, end in pairwise(bounds)]


@given(said=comments())
def test_what_is_restored_replays_without_a_problem(said):
    found = restored(said)
    if found is None:
        assert DONE[0] not in [record for one in said for record in one]
        return
    again = replay(found.records)
    assert (again.problem, again.missing) == (None, ())
    assert again.state.phase is Phase.BLOCKED if found.missing else again.state


@given(said=comments())
def test_every_sequence_that_the_chosen_source_leaves_open_is_named(said):
    found = restored(said)
    if found is None:
        return
    events = [record.event for record in found.records if not isinstance(record.event, SequenceGapDetected)]
    highest = max(event.sequence for event in events)
    assert {event.sequence for event in events} | {*found.missing} >= {*range(1, highest + 1)}


@given(said=comments(), twice=st.booleans())
def test_the_same_comment_twice_changes_nothing(said, twice):
    assert restored([*said, *said]) == restored(said)


def test_no_comments_restore_nothing():
    assert restored([]) is None
    assert restored([()]) is None


def test_a_whole_history_comes_back_as_it_was():
    found = restored([DONE])
    assert (found.source, found.records, found.missing) == ("summary comment", tuple(DONE), ())
