"""Holds (blocked, waiting for approval again) and the ways out of them: resume, verify, retry, approve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.state import Phase
from irontree.errors import IllegalTransition
from tests.unit.domain.histories import (
    CLOSED,
    COMMIT,
    CONTAINER,
    GAP,
    MERGE,
    OTHER_REVISION,
    PATHS,
    WITH_CODE,
    History,
    reach,
)

BLOCKS = ["checkup_preflight_blocked", CLOSED, GAP]
MAY_BE_BLOCKED = [Phase.CONTAINER, Phase.ADOPTED, Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL]
MAY_BE_BLOCKED += [Phase.VERIFIED]


def facts(state):
    """All that a state says, but for where in its stream it stands, and how often it was approved."""
    return replace(state, sequence=0, last_event="", approvals=0)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("phase", MAY_BE_BLOCKED)
def test_going_on_after_a_block_restores_exactly_the_state_before_it(phase, block):
    before = reach(phase)
    blocked = before.then(block)
    assert (blocked.now.phase, blocked.now.before) == (Phase.BLOCKED, before.now)
    assert facts(blocked.then("checkup_unblocked").now) == facts(before.now)


@pytest.mark.parametrize("phase", sorted({*MAY_BE_BLOCKED, Phase.DONE} - {Phase.ADOPTED}))
def test_approving_again_what_was_approved_restores_exactly_the_state_before(phase):
    before = reach(phase)
    stale = before.then("task_reapproval_required")
    assert (stale.now.phase, stale.now.approval_state) == (Phase.STALE, "approval_ready")
    assert facts(stale.then("task_approved").now) == facts(before.now)


def test_an_attempt_that_ran_when_a_gap_was_found_is_still_to_be_recovered_afterwards():
    """Its commit may exist, and its attempt is not given back yet (R11)."""
    resumed = reach(Phase.RUNNING).then(GAP).then("checkup_unblocked").now
    assert (resumed.phase, resumed.attempt_count, resumed.run_token) == (Phase.RUNNING, 1, "7/12345e67/2")


def test_a_commit_that_was_taken_over_from_a_merge_survives_a_block():
    """Else the next attempt would start from a tree without what others published, and take it out again."""
    failed = reach(Phase.COMMITTED).then("verify_failed_retryable", verify_anchor_sha=MERGE, meta={"base_sha": MERGE})
    assert failed.now.commit == MERGE
    assert failed.then("checkup_preflight_blocked", "checkup_unblocked").now.commit == MERGE


def test_a_commit_that_was_given_up_stays_given_up_through_a_block():
    afresh = (
        reach(Phase.COMMITTED)
        .then("checkup_preflight_blocked")
        .then("checkup_unblocked", resolution="retry", code_ref=None)
    )
    assert afresh.now.commit is None
    assert afresh.then("checkup_preflight_blocked", "checkup_unblocked").now.commit is None


# --- approval -----------------------------------------------------------------------------------------------


def test_an_adopted_issue_runs_only_after_its_approval_whatever_blocked_it():
    adopted = History().then("task_adopted")
    for waiting in (adopted, adopted.then("checkup_preflight_blocked", "checkup_unblocked")):
        with pytest.raises(IllegalTransition, match="run_started"):
            waiting.then("run_started")
        approved = waiting.then("task_approved").now
        assert (approved.phase, approved.approval_state) == (Phase.READY, "approved")


def test_an_adopted_issue_whose_text_changed_is_ready_once_approved():
    state = History().then("task_adopted", "task_reapproval_required", "task_approved").now
    assert state.phase is Phase.READY


def test_an_approval_may_name_a_new_revision():
    stale = reach(Phase.READY).then("task_reapproval_required")
    approved = stale.then("task_approved", spec_revision=OTHER_REVISION, approved_revision=OTHER_REVISION).now
    assert (approved.spec_revision, approved.approved_revision) == (OTHER_REVISION, OTHER_REVISION)


@pytest.mark.parametrize("name", ["task_approved", "checkup_unblocked"])
@pytest.mark.parametrize(
    "restored",
    [
        {"current_stage": "done", "next_stage": "none"},
        {"current_stage": "checkup", "next_stage": "done"},
        {"current_stage": "verify", "next_stage": "verify"},
        {"current_stage": "definition", "workflow_entry_state": "needs_breakdown"},
        {"completion_basis": "accepted", "code_ref": COMMIT, "code_publication_state": "published"},
    ],
)
def test_what_is_restored_is_what_was_there_before(name, restored):
    held = reach(Phase.READY).then("task_reapproval_required" if name == "task_approved" else CLOSED)
    with pytest.raises(IllegalTransition, match=name):
        held.then(name, **restored)


# --- one hold on top of another -----------------------------------------------------------------------------


def test_a_second_block_is_cleared_together_with_the_first():
    twice = reach(Phase.PENDING).then("checkup_preflight_blocked", CLOSED)
    assert (twice.now.blocking_check, twice.now.before) == ("closed-outside", reach(Phase.PENDING).now)
    assert twice.then("checkup_unblocked").now.phase is Phase.PENDING


def test_clearing_a_block_does_not_stand_for_the_approval_that_is_still_missing():
    stale = reach(Phase.READY).then("task_reapproval_required")
    freed = stale.then(CLOSED, "checkup_unblocked")
    assert (freed.now.phase, freed.now.approval_state) == (Phase.STALE, "approval_ready")
    assert freed.then("task_approved").now.phase is Phase.READY


def test_an_approval_does_not_clear_the_block_beneath_it():
    blocked = reach(Phase.COMMITTED).then("checkup_preflight_blocked")
    approved = blocked.then("task_reapproval_required", "task_approved")
    assert (approved.now.phase, approved.now.blocking_check) == (Phase.BLOCKED, "dirty-working-tree")
    assert approved.then("checkup_unblocked").now.phase is Phase.COMMITTED


def test_an_adopted_issue_that_was_approved_while_blocked_needs_no_second_approval():
    blocked = History().then("task_adopted", "checkup_preflight_blocked", "task_reapproval_required", "task_approved")
    assert blocked.now.phase is Phase.BLOCKED
    assert blocked.then("checkup_unblocked").now.phase is Phase.READY


def test_free_transitions_are_counted_afresh_once_a_person_cleared_a_block_whatever_lies_beneath():
    spinning = reach(Phase.READY).then(*["run_started", "run_interrupted"] * 2, "task_reapproval_required")
    assert spinning.then("task_approved").now.free_streak == 2
    assert spinning.then(CLOSED, "checkup_unblocked", "task_approved").now.free_streak == 0


def test_holds_never_pile_up_beyond_one_of_each_kind():
    history = reach(Phase.READY)
    for _ in range(5):
        history = history.then("checkup_preflight_blocked", "task_reapproval_required", CLOSED)
    phases = []
    state = history.now
    while state:
        phases.append(state.phase)
        state = state.before
    assert phases == [Phase.BLOCKED, Phase.STALE, Phase.READY]


# --- verify and retry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.PENDING])
@pytest.mark.parametrize(("resolution", "after"), [("verify", Phase.COMMITTED), ("retry", Phase.READY)])
def test_a_blocked_task_can_be_verified_or_tried_again_instead_of_resumed(phase, resolution, after):
    state = reach(phase).then("checkup_preflight_blocked").then("checkup_unblocked", resolution=resolution).now
    assert (state.phase, state.commit, state.before, state.blocking_check) == (after, COMMIT, None, None)


def test_a_terminal_failure_is_verified_again_at_the_same_commit_and_attempt():
    state = reach(Phase.TERMINAL).then("checkup_unblocked", resolution="verify").now
    assert (state.phase, state.commit, state.attempt_count) == (Phase.COMMITTED, COMMIT, 1)


def test_a_terminal_failure_is_tried_again_with_the_attempts_that_a_person_adds():
    failed = reach(Phase.TERMINAL)
    with pytest.raises(IllegalTransition, match="no attempt is left"):
        failed.then("checkup_unblocked", resolution="retry")
    again = failed.then("checkup_unblocked", resolution="retry", extra_attempts=1).then("run_started").now
    assert (again.attempt_count, again.total_attempts) == (2, 2)


def test_attempts_can_be_added_while_resuming_too():
    resumed = reach(Phase.BLOCKED).then("checkup_unblocked", extra_attempts=2).now
    assert (resumed.phase, resumed.max_retry_count) == (Phase.READY, 5)


def test_there_is_nothing_to_resume_after_a_terminal_failure():
    with pytest.raises(IllegalTransition, match="nothing to resume"):
        reach(Phase.TERMINAL).then("checkup_unblocked")


def test_a_terminal_failure_that_was_blocked_as_well_is_a_terminal_failure_again():
    state = reach(Phase.TERMINAL).then(CLOSED, "checkup_unblocked").now
    assert (state.phase, state.pass_fail_outcome) == (Phase.TERMINAL, "fail_terminal")


@pytest.mark.parametrize("resolution", ["verify", "retry"])
@pytest.mark.parametrize(
    "steps",
    [
        ("task_adopted",),
        (CONTAINER,),
        (*PATHS[Phase.READY], "task_reapproval_required"),
        (*PATHS[Phase.COMMITTED], "task_reapproval_required"),
        PATHS[Phase.RUNNING],
        PATHS[Phase.VERIFIED],
        PATHS[Phase.DONE],
    ],
)
def test_verify_and_retry_are_no_way_round_an_approval_a_recovery_or_evidence(steps, resolution):
    blocked = History().then(*steps).then(GAP)
    with pytest.raises(IllegalTransition, match=f"cannot {resolution}"):
        blocked.then("checkup_unblocked", resolution=resolution)


def test_nothing_is_verified_that_was_never_committed():
    with pytest.raises(IllegalTransition, match="cannot verify"):
        reach(Phase.BLOCKED).then("checkup_unblocked", resolution="verify")


@pytest.mark.parametrize("resolution", ["verify", "retry"])
@pytest.mark.parametrize(
    "wrong", [{"code_ref": MERGE}, {"current_stage": "done", "next_stage": "none"}, {"workflow_entry_state": "blocked"}]
)
def test_verify_and_retry_say_in_their_keys_what_they_lead_to(resolution, wrong):
    blocked = History().then("task_published", "run_started", WITH_CODE, "checkup_preflight_blocked")
    with pytest.raises(IllegalTransition, match=f"cannot {resolution}"):
        blocked.then("checkup_unblocked", resolution=resolution, **wrong)
