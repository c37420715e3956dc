"""What may follow what, and what an event makes of a state: one table, and the cases people meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.events import ISSUE_EVENTS
from irontree.domain.machine import LEGAL, MACHINE, evolve, replay
from irontree.domain.state import Phase
from irontree.errors import IllegalTransition
from tests.unit.domain.histories import (
    BASE,
    CLOSED,
    COMMIT,
    CONTAINER,
    GAP,
    MERGE,
    OTHER_REVISION,
    PATHS,
    WITH_CODE,
    History,
    follow,
    reach,
    record,
)

# Phase, then every event that may follow it. Typed by hand; compared with the code's own table below.
MAY_FOLLOW = {
    None: "task_published task_adopted task_re_adopted",
    Phase.CONTAINER: "checkup_aggregate_recorded DETOUR",
    Phase.ADOPTED: "task_approved DETOUR",
    Phase.READY: "run_started DETOUR",
    Phase.RUNNING: "run_completed run_commit_failed run_interrupted GAP",
    Phase.COMMITTED: """verify_passed verify_failed_retryable verify_failed_terminal verify_pending_acceptance
        verify_publication_failed DETOUR""",
    Phase.PENDING: """checkup_accept_recorded checkup_accept_publication_failed verify_failed_retryable
        verify_failed_terminal DETOUR""",
    Phase.TERMINAL: "checkup_unblocked DETOUR",
    Phase.BLOCKED: "checkup_unblocked DETOUR",
    Phase.STALE: "task_approved CLOSED GAP",
    Phase.VERIFIED: "checkup_done DETOUR",
    Phase.DONE: "task_reapproval_required checkup_preflight_blocked GAP",
}
SHORT = {
    "DETOUR": {"task_reapproval_required", "checkup_preflight_blocked", CLOSED, GAP},
    "CLOSED": {CLOSED},
    "GAP": {GAP},
}
EXPECTED = {
    phase: frozenset().union(*(SHORT.get(word, {word}) for word in words.split()))
    for phase, words in MAY_FOLLOW.items()
}
FAILED_AND_UNBLOCKED = (Phase.TERMINAL, "checkup_unblocked")
PAIRS = [(phase, name) for phase in EXPECTED for name in sorted(ISSUE_EVENTS)]


@pytest.mark.parametrize(("phase", "name"), PAIRS)
def test_an_event_follows_a_phase_exactly_where_the_table_says(phase, name):
    state = reach(phase).state if phase else None
    if name in EXPECTED[phase]:
        retry = {"resolution": "retry", "extra_attempts": 1} if (phase, name) == FAILED_AND_UNBLOCKED else {}
        assert evolve(state, follow(state, name, **retry)).last_event == name
    else:
        with pytest.raises(IllegalTransition, match=f"{name} at sequence .* cannot follow"):
            evolve(state, record(name, sequence=state.sequence + 1 if state else 1))


def test_every_event_leads_to_a_phase_by_its_name_or_by_what_it_says():
    """One that were forgotten would leave an issue in the phase that it was in."""
    by_what_they_say = {"task_published", "task_approved", "checkup_unblocked"}
    assert {event for events in LEGAL.values() for event in events} == {*MACHINE.after} | by_what_they_say


def test_every_phase_has_a_row_and_every_event_follows_something():
    assert dict(LEGAL) == EXPECTED
    assert set(LEGAL) == {None, *Phase}
    assert frozenset().union(*LEGAL.values()) == set(ISSUE_EVENTS)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_reached_by_a_short_history(phase):
    assert set(PATHS) == set(Phase)
    assert reach(phase).now.phase is phase


@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        (("task_re_adopted",), Phase.ADOPTED),
        (("task_adopted", "task_approved"), Phase.READY),
        (("task_published", "run_started", "run_commit_failed"), Phase.READY),
        (("task_published", "run_started", "run_interrupted"), Phase.READY),
        (("task_published", "run_started", WITH_CODE, "verify_failed_retryable"), Phase.READY),
        (("task_published", "run_started", WITH_CODE, "verify_publication_failed"), Phase.COMMITTED),
        ((*PATHS[Phase.PENDING], "checkup_accept_publication_failed"), Phase.PENDING),
        ((*PATHS[Phase.PENDING], "verify_failed_retryable"), Phase.READY),
        ((*PATHS[Phase.PENDING], "checkup_accept_recorded"), Phase.VERIFIED),
        ((CONTAINER, "checkup_aggregate_recorded"), Phase.VERIFIED),
        ((CONTAINER, "checkup_aggregate_recorded", "checkup_done"), Phase.DONE),
    ],
)
def test_an_event_leads_to_its_phase(steps, phase):
    assert History().then(*steps).now.phase is phase


# --- upstream acceptance cases ------------------------------------------------------------------------------


def test_a_first_attempt_that_fails_is_tried_again_and_passes_in_seven_contiguous_events():
    """TC-2.1."""
    failed = History().then("task_published", "run_started", WITH_CODE, "verify_failed_retryable")
    assert (failed.now.pass_fail_outcome, failed.now.attempt_count) == ("fail_retryable", 1)
    passed = failed.then("run_started", WITH_CODE, "verify_passed")
    assert passed.now.attempt_count == 2
    assert passed.now.failure_sequence == 4
    assert [known.event.sequence for known in passed.records] == [1, 2, 3, 4, 5, 6, 7]
    assert replay(passed.records).state == passed.now


def test_a_block_before_an_attempt_counts_none_whatever_its_check():
    """TC-2.2; this check is of an earlier version (decision 0021)."""
    blocked = History().then("task_published", "checkup_preflight_blocked").now
    assert (blocked.blocking_check, blocked.attempt_count, blocked.sequence) == ("dirty-working-tree", 0, 2)


def test_the_fourth_failure_is_terminal_and_a_fifth_attempt_is_refused():
    """TC-2.3: attempts 1 to 3 are retryable with a maximum of 3 retries, attempt 4 is not."""
    history = History().then("task_published")
    for _ in range(3):
        history = history.then("run_started", WITH_CODE, "verify_failed_retryable")
    last = history.then("run_started", WITH_CODE)
    with pytest.raises(IllegalTransition, match="no attempt left"):
        last.then("verify_failed_retryable")
    terminal = last.then("verify_failed_terminal").now
    assert (terminal.phase, terminal.attempt_count, terminal.total_attempts) == (Phase.TERMINAL, 4, 4)
    with pytest.raises(IllegalTransition, match="run_started"):
        last.then("verify_failed_terminal").then("run_started")


def test_a_failed_push_leaves_the_commit_to_be_verified_at_the_same_attempt():
    """TC-3.1."""
    state = reach(Phase.COMMITTED).then("verify_publication_failed").now
    assert (state.current_stage, state.next_stage) == ("verify", "verify")
    assert (state.code_publication_state, state.pass_fail_outcome, state.attempt_count) == ("local_only", None, 1)
    assert (state.commit, state.code_ref) == (COMMIT, COMMIT)


def test_an_issue_that_was_closed_outside_is_blocked_and_never_done():
    """TC-7.1."""
    state = reach(Phase.VERIFIED).then(CLOSED).now
    assert (state.phase, state.blocking_check, state.done) == (Phase.BLOCKED, "closed-outside", False)


# --- counters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "name", "attempt"),
    [
        (Phase.READY, "run_started", 0),
        (Phase.READY, "run_started", 2),
        (Phase.RUNNING, "run_completed", 0),
        (Phase.RUNNING, "run_interrupted", 1),
        (Phase.RUNNING, "run_commit_failed", 1),
        (Phase.COMMITTED, "verify_passed", 2),
        (Phase.BLOCKED, "checkup_unblocked", 1),
    ],
)
def test_an_attempt_is_counted_once_at_its_start_and_given_back_only_by_its_own_events(phase, name, attempt):
    with pytest.raises(IllegalTransition, match="counts attempt"):
        reach(phase).then(name, attempt_count=attempt)


def test_the_number_of_retries_changes_only_by_what_a_person_allows():
    with pytest.raises(IllegalTransition, match="1 \\+ 9"):
        reach(Phase.READY).then("run_started", max_retry_count=9)
    allowed = reach(Phase.TERMINAL).then("checkup_unblocked", resolution="retry", extra_attempts=2).now
    assert (allowed.max_retry_count, allowed.total_attempts) == (2, 3)


def test_an_interrupted_attempt_and_a_refused_commit_are_given_back():
    state = History().then("task_published", "run_started", "run_interrupted", "run_started", "run_commit_failed").now
    assert (state.runs_started, state.given_back, state.attempt_count) == (2, 2, 0)


def test_no_attempt_starts_beyond_the_budget_wherever_the_state_came_from():
    spent = replace(reach(Phase.READY).now, attempt_count=4)
    with pytest.raises(IllegalTransition, match="exceeds the attempt budget"):
        evolve(spent, follow(spent, "run_started"))


@pytest.mark.parametrize("values", [{"sequence": 2}, {"attempt_count": 1}])
def test_a_stream_begins_at_sequence_one_and_attempt_zero(values):
    with pytest.raises(IllegalTransition, match="begins a stream"):
        evolve(None, record("task_published", **values))


@pytest.mark.parametrize("sequence", [1, 2, 4])
def test_an_event_has_the_next_sequence(sequence):
    history = reach(Phase.RUNNING)
    with pytest.raises(IllegalTransition, match="expected 3"):
        history.then("run_interrupted", sequence=sequence)


@pytest.mark.parametrize("sequence", [1, 2])
def test_a_gap_event_may_stand_behind_a_hole_but_never_before_its_place(sequence):
    history = reach(Phase.RUNNING)
    with pytest.raises(IllegalTransition, match="expected 3"):
        history.then(GAP, sequence=sequence)
    assert history.then(GAP, sequence=8).now.sequence == 8


@pytest.mark.parametrize(
    "values", [{"task_key": "core-ui"}, {"issue_number": 8}, {"approved_revision": OTHER_REVISION}]
)
def test_an_event_of_another_task_or_approval_is_refused(values):
    """Contract: the log counts per task key and approved revision."""
    with pytest.raises(IllegalTransition, match="belongs to"):
        reach(Phase.READY).then("run_started", **values)


# --- evidence -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.PENDING])
def test_committed_code_is_not_done_before_it_is_published(phase):
    """Ruling B8: `not_applicable` only where the run said so."""
    name = "verify_passed" if phase is Phase.COMMITTED else "checkup_accept_recorded"
    with pytest.raises(IllegalTransition, match="unpublished"):
        reach(phase).then(name, code_ref="not_applicable", code_publication_state="not_applicable")


@pytest.mark.parametrize(("code_ref", "publication"), [(COMMIT, "not_applicable"), ("not_applicable", "published")])
def test_published_names_a_commit_and_a_commit_is_published(code_ref, publication):
    with pytest.raises(IllegalTransition, match=publication):
        reach(Phase.COMMITTED).then("verify_passed", code_ref=code_ref, code_publication_state=publication)


@pytest.mark.parametrize(("code_ref", "publication"), [(COMMIT, "not_applicable"), ("not_applicable", "local_only")])
def test_a_completed_run_names_its_commit_exactly_when_there_is_one(code_ref, publication):
    with pytest.raises(IllegalTransition, match=publication):
        reach(Phase.RUNNING).then("run_completed", code_ref=code_ref, code_publication_state=publication)


@pytest.mark.parametrize(
    "values",
    [
        {"completion_basis": "accepted"},
        {"code_ref": MERGE},
        {"code_ref": "not_applicable", "code_publication_state": "not_applicable"},
    ],
)
def test_done_repeats_the_recorded_evidence(values):
    with pytest.raises(IllegalTransition, match="checkup_done"):
        reach(Phase.VERIFIED).then("checkup_done", **values)


@pytest.mark.parametrize(
    ("steps", "basis", "code_ref"),
    [
        (("task_published", "run_started", WITH_CODE, "verify_passed"), "verified", COMMIT),
        ((*PATHS[Phase.PENDING], "checkup_accept_recorded"), "accepted", COMMIT),
        (
            ("task_published", "run_started", "run_completed", "verify_pending_acceptance", "checkup_accept_recorded"),
            "accepted",
            "not_applicable",
        ),
        ((CONTAINER, "checkup_aggregate_recorded"), "aggregated", "not_applicable"),
    ],
)
def test_every_basis_leads_to_done_with_its_reference(steps, basis, code_ref):
    done = History().then(*steps).then("checkup_done").now
    assert (done.done, done.completion_basis, done.code_ref) == (True, basis, code_ref)


def test_a_merge_with_what_others_published_becomes_the_evidence():
    """Ruling R14: the merge commit is the new anchor and reference; the task's own commit is kept beside it."""
    done = (
        reach(Phase.COMMITTED).then("verify_passed", code_ref=MERGE, verify_anchor_sha=MERGE).then("checkup_done").now
    )
    assert (done.code_ref, done.anchor, done.commit) == (MERGE, MERGE, COMMIT)


# --- what else a state remembers ----------------------------------------------------------------------------


def test_the_last_attempt_is_known_by_its_start():
    state = reach(Phase.READY).then("run_started", meta={"base_sha": BASE, "token": "t"}).now
    assert (state.base_sha, state.run_token, state.run_sequence) == (BASE, "t", 2)


@pytest.mark.parametrize("name", ["verify_failed_retryable", "verify_failed_terminal"])
def test_a_failure_together_with_what_others_published_makes_the_merge_the_next_start(name):
    phase = Phase.PENDING if name == "verify_failed_terminal" else Phase.COMMITTED
    state = reach(phase).then(name, verify_anchor_sha=MERGE, meta={"base_sha": BASE}).now
    assert (state.commit, state.base_sha) == (MERGE, BASE)


def test_the_newest_report_and_failure_are_remembered_until_there_are_newer_ones():
    state = reach(Phase.COMMITTED).then("verify_pending_acceptance", report_path="r.md").then("verify_failed_retryable")
    assert (state.now.report_path, state.now.failure_sequence) == ("r.md", 5)
    assert state.then("run_started", "run_interrupted").now.failure_sequence == 5
    assert state.then("run_started", "run_commit_failed").now.failure_sequence == 7


STREAKS = [
    (("run_started", "run_interrupted"), "run_interrupted", 1),
    (("run_started", "run_interrupted", "run_started", "run_commit_failed"), "run_commit_failed", 2),
    (("run_started", "run_interrupted") * 3, "run_interrupted", 3),
    (("run_started", "run_interrupted", "run_started", WITH_CODE), None, 0),
    (
        ("run_started", WITH_CODE, "verify_publication_failed", "verify_publication_failed"),
        "verify_publication_failed",
        2,
    ),
    (("run_started", WITH_CODE, "verify_publication_failed", "verify_failed_retryable"), None, 0),
    (("run_started", WITH_CODE, "verify_publication_failed", "verify_passed"), None, 0),
    (("run_started", "run_interrupted", "checkup_preflight_blocked"), "run_interrupted", 1),
    (("run_started", "run_interrupted", "checkup_preflight_blocked", "checkup_unblocked"), None, 0),
    (("run_started", "run_interrupted", "task_reapproval_required", "task_approved"), "run_interrupted", 1),
]


@pytest.mark.parametrize(("steps", "event", "length"), STREAKS)
def test_transitions_that_cost_nothing_are_counted_as_long_as_they_come_in_a_row(steps, event, length):
    """Ruling R12."""
    state = reach(Phase.READY).then(*steps).now
    assert (state.free_event, state.free_streak) == (event, length)


def test_an_event_clears_a_problem_that_was_only_noted_on_the_state():
    state = replace(reach(Phase.READY).now, problem="sequence 2 is missing")
    blocked = evolve(state, follow(state, "checkup_preflight_blocked"))
    assert (blocked.problem, blocked.before) == (None, reach(Phase.READY).now)
