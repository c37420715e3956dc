"""Streams with holes: what counts, what is missing, and how a person goes on (R13, B13, S3)."""

from __future__ import annotations

import pytest

from irontree.domain.machine import replay
from irontree.domain.state import Phase
from tests.unit.domain.histories import GAP, WITH_CODE, History, follow, reach

PASSED = ("task_published", "run_started", WITH_CODE, "verify_passed", "checkup_done")


def without(history, *sequences):
    return tuple(record for record in history.records if record.event.sequence not in sequences)


def gap(state, *, found, missing):
    """What reconcile appends behind the highest file."""
    return follow(
        state,
        GAP,
        sequence=max(found) + 1,
        found_sequences=found,
        missing_sequences=missing,
        highest_replayable_sequence=state.sequence,
    )


def holed():
    """TC-6.2: sequences 1, 3 and 4 are there."""
    return without(History().then(*PASSED[:4]), 2)


def test_an_empty_stream_has_no_state_and_nothing_is_missing():
    assert replay(()) == replay([])
    assert replay(()).state is None
    assert replay(()).missing == ()


def test_behind_a_hole_nothing_counts_and_the_issue_is_not_trusted():
    """TC-6.2: found 1, 3, 4; missing 2; replayable up to 1."""
    seen = replay(holed())
    assert (seen.missing, seen.problem) == ((2,), None)
    assert seen.state is not None
    assert (seen.state.sequence, seen.state.phase) == (1, Phase.READY)
    assert seen.state.problem == "events are missing or cannot be read: sequence 2"


def test_the_gap_event_counts_behind_its_hole_and_blocks():
    """TC-6.2 continued: the gap event at 5 is the one event that is read there."""
    first = reach(Phase.READY).now
    seen = replay((*holed(), gap(first, found=(1, 3, 4), missing=(2,))))
    assert (seen.missing, seen.problem) == ((), None)
    assert seen.state is not None
    assert (seen.state.sequence, seen.state.phase, seen.state.problem) == (5, Phase.BLOCKED, None)
    assert (seen.state.blocking_check, seen.state.before) == ("sequence-gap", first)


def cleared():
    """TC-6.2 to its end: a person says at 6 that the work goes on from where the log can be read."""
    records = (*holed(), gap(reach(Phase.READY).now, found=(1, 3, 4), missing=(2,)))
    blocked = replay(records).state
    return (*records, follow(blocked, "checkup_unblocked"))


def test_a_cleared_gap_is_the_point_from_which_the_work_goes_on():
    state = replay(cleared()).state
    assert state is not None
    assert (state.sequence, state.phase, state.attempt_count) == (6, Phase.READY, 0)
    seen = replay((*cleared(), follow(state, "run_started")))
    assert seen.state is not None
    assert (seen.state.sequence, seen.state.phase, seen.problem) == (7, Phase.RUNNING, None)


def test_files_that_come_back_before_the_person_decides_are_used():
    """The natural remedy, restoring from the backup, must not leave the issue contradicting itself."""
    whole = History().then(*PASSED[:4])
    noted = gap(reach(Phase.READY).now, found=(1, 3, 4), missing=(2,))
    seen = replay((*whole.records, noted))
    assert seen.problem is None
    assert seen.state is not None
    assert (seen.state.phase, seen.state.before) == (Phase.BLOCKED, whole.now)
    freed = replay((*whole.records, noted, follow(seen.state, "checkup_unblocked"))).state
    assert freed is not None
    assert (freed.phase, freed.attempt_count) == (Phase.VERIFIED, 1)


def test_files_that_come_back_after_the_person_decided_stay_out():
    """Unblocking is the replay checkpoint: a decision is not undone by a file."""
    lost = History().then("task_published", "run_started").records[1]
    records = sorted((*cleared(), lost), key=lambda record: record.event.sequence)
    assert replay(records) == replay(cleared())


def test_files_that_come_back_are_never_ignored_before_a_person_decided():
    history = History().then(*PASSED[:3])
    wrong = follow(history.now, "checkup_done", completion_basis="verified", code_publication_state="published")
    noted = gap(reach(Phase.READY).now, found=(1, 3, 4), missing=(2,))
    assert replay((*history.records, wrong, noted)).problem == (
        "checkup_done at sequence 4 cannot follow an issue that is committed, to be verified"
    )


def test_two_holes_are_named_by_one_gap_event():
    records = without(History().then(*PASSED), 2, 4)
    first = reach(Phase.READY).now
    assert replay(records).missing == (2, 4)
    assert replay((*records, gap(first, found=(1, 3, 5), missing=(2, 4)))).missing == ()


def test_a_second_hole_that_opens_later_is_missing_until_it_is_named_too():
    records = (*cleared(), follow(replay(cleared()).state, "run_started", sequence=8))
    seen = replay(records)
    assert (seen.missing, seen.state and seen.state.sequence) == ((7,), 6)
    again = replay((*records, gap(replay(cleared()).state, found=(1, 3, 4, 5, 6, 8), missing=(7,))))
    assert again.state is not None
    assert (again.missing, again.state.phase, again.state.sequence) == ((), Phase.BLOCKED, 9)


def test_a_gap_event_that_names_only_part_of_a_hole_leaves_the_rest_missing():
    records = without(History().then(*PASSED), 2, 3)
    seen = replay((*records, gap(reach(Phase.READY).now, found=(1, 4, 5), missing=(2,))))
    assert seen.missing == (3,)
    assert seen.state is not None
    assert seen.state.problem is not None


def test_an_unreadable_file_at_the_end_is_missing_too():
    """Without the highest file's number the last, damaged event would just not have happened."""
    history = History().then(*PASSED[:3])
    seen = replay(history.records, highest_sequence=4)
    assert seen.missing == (4,)
    assert seen.state is not None
    assert (seen.state.sequence, seen.state.problem) == (3, "events are missing or cannot be read: sequence 4")
    assert replay(history.records, highest_sequence=3).missing == ()


def test_a_stream_whose_first_event_is_missing_has_no_state():
    seen = replay(without(History().then(*PASSED), 1))
    assert (seen.state, seen.missing) == (None, (1,))


def test_one_file_with_a_huge_number_neither_hangs_nor_lists_billions():
    seen = replay(History().then(*PASSED).records, highest_sequence=20_261_122_093_000)
    assert len(seen.missing) == 1000
    assert seen.state is not None
    assert seen.state.problem == (
        "events are missing or cannot be read: sequence 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and more"
    )


def test_done_is_not_done_in_a_log_that_cannot_be_trusted():
    finished = History().then(*PASSED)
    assert finished.now.done
    damaged = replay(finished.records, highest_sequence=6).state
    assert damaged is not None
    assert (damaged.phase, damaged.done) == (Phase.DONE, False)


def test_replay_stops_at_the_first_event_that_does_not_fit_and_names_it():
    history = reach(Phase.COMMITTED)
    wrong = follow(history.now, "checkup_done", completion_basis="verified", code_publication_state="published")
    later = follow(history.now, "verify_passed", sequence=5)
    seen = replay((*history.records, wrong, later))
    assert seen.state is not None
    assert seen.state.sequence == 3
    assert seen.problem == seen.state.problem
    assert seen.problem == "checkup_done at sequence 4 cannot follow an issue that is committed, to be verified"


def test_an_older_gap_event_never_turns_the_stream_back():
    history = History().then(*PASSED)
    late = gap(reach(Phase.READY).now, found=(1,), missing=())
    assert late.event.sequence == 2
    seen = replay((*history.records, late))
    assert (seen.state, seen.missing) == (history.now, ())


@pytest.mark.parametrize("position", range(5))
def test_a_record_that_stands_twice_counts_once(position):
    history = History().then(*PASSED)
    doubled = (*history.records[: position + 1], *history.records[position:])
    assert replay(doubled).state == history.now
