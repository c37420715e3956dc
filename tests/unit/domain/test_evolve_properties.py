"""What holds for every history, legal or damaged: replay is a function of the log, and evidence cannot be invented."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.events import ISSUE_EVENTS
from irontree.domain.machine import LEGAL, evolve, replay
from irontree.domain.state import Phase
from irontree.errors import IllegalTransition
from tests.unit.domain.histories import GAP, PLAIN, damaged, event, follow, histories, record

GIVEN_BACK = {"run_interrupted", "run_commit_failed"}
EVIDENCE = {"verify_passed", "checkup_accept_recorded", "checkup_aggregate_recorded"}
FREE = GIVEN_BACK | {"verify_publication_failed"}
UNTOUCHED_BY_HOLDS = {"checkup_preflight_blocked", "task_reapproval_required", "task_approved", GAP, "run_started"}
UNTOUCHED_BY_HOLDS |= {"checkup_reconcile_external_close_detected", "checkup_accept_publication_failed"}


def names(records):
    return [kept.event.event for kept in records]


def states_of(history):
    """The state after each event, folded by hand."""
    state, states = None, []
    for kept in history.records:
        state = evolve(state, kept)
        states.append(state)
    return states


@given(histories())
def test_replaying_a_legal_history_is_folding_it_at_every_prefix(history):
    for length, state in enumerate(states_of(history), start=1):
        seen = replay(history.records[:length])
        assert (seen.state, seen.problem, seen.missing) == (state, None, ())


@given(damaged())
def test_replay_never_raises_and_says_the_same_twice(records):
    assert replay(records) == replay(records)


@given(damaged())
def test_a_stream_is_trusted_only_if_every_sequence_below_its_highest_counted_or_is_named_by_a_gap_event(records):
    seen = replay(records)
    if seen.state is None or seen.state.problem:
        return
    there = {kept.event.sequence for kept in records}
    named = {number for kept in records if kept.event.event == GAP for number in kept.event.missing_sequences}
    assert set(range(1, max(there) + 1)) <= there | named


@given(histories(), st.data())
def test_a_hole_in_the_middle_is_always_noticed(history, data):
    whole = [kept.event.sequence for kept in history.records]
    lost = data.draw(st.sampled_from(whole))
    seen = replay([kept for kept in history.records if kept.event.sequence != lost])
    if lost != whole[-1]:
        assert seen.problem or lost in seen.missing


@given(st.one_of(histories().map(lambda history: history.records), damaged()))
def test_done_needs_recorded_evidence_and_a_published_commit_where_there_is_code(records):
    """See docs/explanation/done.md; also for logs that nobody should have written."""
    state = replay(records).state
    if state is None or not state.done:
        return
    assert state.completion_basis in {"verified", "accepted", "aggregated"}
    assert "checkup_done" in names(records)
    basis = [kept.event for kept in records if kept.event.event in EVIDENCE]
    assert (state.completion_basis, state.code_ref) in {(found.completion_basis, found.code_ref) for found in basis}
    assert (state.code_publication_state == "published") == (state.code_ref != "not_applicable")
    if state.has_code:
        assert state.code_publication_state == "published"


@given(histories())
def test_done_is_reached_from_evidence_alone(history):
    for before, after in pairwise(states_of(history)):
        if after.done and not before.done:
            restored = before.before is not None and Phase.DONE in {before.before.phase, *beneath(before)}
            assert before.phase is Phase.VERIFIED or restored


def beneath(state):
    """The phases that a hold hides, outermost first."""
    found = []
    while state.before:
        state = state.before
        found.append(state.phase)
    return found


@given(st.one_of(histories().map(lambda history: history.records), damaged()))
def test_attempts_stay_within_the_budget_and_every_run_is_counted_or_given_back(records):
    state = replay(records).state
    if state is None:
        return
    assert 0 <= state.attempt_count <= state.total_attempts
    assert state.runs_started == state.attempt_count + state.given_back


@given(histories(gaps=False))
def test_counters_are_what_counting_the_events_gives(history):
    told = names(history.records)
    given_back = sum(name in GIVEN_BACK for name in told)
    assert history.now.runs_started == told.count("run_started")
    assert history.now.given_back == given_back
    assert history.now.attempt_count == told.count("run_started") - given_back
    extra = sum(getattr(kept.event, "extra_attempts", 0) for kept in history.records)
    assert history.now.max_retry_count == history.records[0].event.max_retry_count + extra


@given(histories())
def test_a_ready_issue_always_has_an_attempt_left(history):
    for state in states_of(history):
        if state.phase is Phase.READY:
            assert evolve(state, follow(state, "run_started")).attempt_count <= state.total_attempts


@given(histories(gaps=False))
def test_the_free_streak_is_the_run_of_free_events_at_the_end_holds_aside(history):
    streak = []
    for name in names(history.records):
        if name in FREE:
            streak.append(name)
        elif name not in UNTOUCHED_BY_HOLDS:
            streak.clear()
    assert history.now.free_streak == len(streak)
    assert history.now.free_event == (streak[-1] if streak else None)


@given(histories())
def test_a_hold_hides_at_most_one_hold_of_the_other_kind(history):
    holds = [Phase.BLOCKED, Phase.STALE]
    for state in states_of(history):
        chain = [state.phase, *beneath(state)]
        assert len(chain) == len(set(chain)) <= 3
        assert [phase for phase in chain if phase in holds] == chain[:-1] or len(chain) == 1


@given(histories())
def test_nothing_runs_between_a_missing_approval_and_the_approval(history):
    waiting = False
    for kept in history.records:
        name = kept.event.event
        waiting = (waiting or name in {"task_adopted", "task_re_adopted", "task_reapproval_required"}) and (
            name != "task_approved"
        )
        assert not (waiting and name in {"run_started", "verify_passed", "checkup_accept_recorded"})


@given(histories(), st.sampled_from(sorted(ISSUE_EVENTS)))
def test_what_the_table_does_not_allow_is_refused_in_every_state(history, name):
    state = history.now
    following = record(name, sequence=state.sequence + 1)
    if name in LEGAL[state.phase]:
        return
    with pytest.raises(IllegalTransition, match="cannot follow"):
        evolve(state, following)


@given(
    histories(),
    st.sampled_from(sorted(ISSUE_EVENTS)),
    st.fixed_dictionaries(
        {},
        optional={
            "attempt_count": st.integers(0, 5),
            "max_retry_count": st.integers(0, 5),
            "extra_attempts": st.integers(0, 2),
            "resolution": st.sampled_from(["resume", "verify", "retry"]),
            "current_stage": st.sampled_from(["definition", "run", "verify", "checkup", "done"]),
            "next_stage": st.sampled_from(["run", "verify", "checkup", "done", "none"]),
            "workflow_entry_state": st.sampled_from(["ready_to_start", "pending_acceptance", "blocked"]),
            "completion_basis": st.sampled_from([None, "verified", "accepted", "aggregated"]),
            "code_ref": st.sampled_from([None, "not_applicable", "c" * 40, "e" * 40]),
            "code_publication_state": st.sampled_from(["not_applicable", "local_only", "published"]),
        },
    ),
)
def test_whatever_an_event_claims_it_is_refused_or_keeps_the_invariants(history, name, claims):
    state = history.now
    fields = ISSUE_EVENTS[name].model_fields
    plain = {key: getattr(state, key, PLAIN.get(key)) for key in fields if fields[key].is_required()}
    open_claims = {key: value for key, value in claims.items() if key in fields and not is_fixed(name, key, value)}
    try:
        after = evolve(state, record_of(name, plain | open_claims, state.sequence + 1))
    except IllegalTransition:
        return
    assert after.attempt_count <= after.total_attempts
    assert after.runs_started == after.attempt_count + after.given_back
    if after.done and not state.done:
        assert state.phase is Phase.VERIFIED or Phase.DONE in beneath(state)
    if after.phase is Phase.VERIFIED and after.has_code:
        assert after.code_publication_state == "published"
    if after.phase is Phase.COMMITTED:
        assert after.commit is not None


def is_fixed(name, key, value):
    """Whether the model itself refuses the claim (test_events.py)."""
    try:
        event(name, **{key: value})
    except ValueError:
        return True
    return False


def record_of(name, values, sequence):
    known = {key: value for key, value in values.items() if value is not None or not is_fixed(name, key, None)}
    usable = {key: value for key, value in known.items() if not is_fixed(name, key, value)}
    return record(name, **(usable | {"sequence": sequence}))
