"""Labels are a function of the state (R16)."""

from __future__ import annotations

import pytest

from irontree.domain.state import (
    ADOPTED,
    COLORS,
    DESCRIPTIONS,
    MANAGED,
    NEEDS_BREAKDOWN,
    PENDING,
    STAGE_DONE,
    STAGE_RUN,
    STAGE_TASK,
    STAGE_VERIFY,
    Phase,
    TaskState,
    labels_for,
)
from tests.unit.domain.histories import PATHS, History

BLOCKED, RESUMED, STALE, APPROVED = (
    "checkup_preflight_blocked",
    "checkup_unblocked",
    "task_reapproval_required",
    "task_approved",
)


def after(*steps) -> TaskState:
    return History().then(*steps).now


OF_PHASE = {
    Phase.CONTAINER: {STAGE_TASK},
    Phase.ADOPTED: {ADOPTED, STAGE_TASK},
    Phase.READY: {STAGE_TASK},
    Phase.RUNNING: {STAGE_RUN},
    Phase.COMMITTED: {STAGE_VERIFY},
    Phase.PENDING: {STAGE_VERIFY, PENDING},
    Phase.TERMINAL: {STAGE_VERIFY},
    Phase.VERIFIED: {STAGE_DONE},
    Phase.DONE: {STAGE_DONE},
}


@pytest.mark.parametrize("phase", OF_PHASE)
def test_every_phase_has_its_labels(phase):
    assert labels_for(after(*PATHS[phase])) == OF_PHASE[phase]


@pytest.mark.parametrize("phase", [phase for phase in OF_PHASE if phase not in (Phase.RUNNING, Phase.DONE)])
@pytest.mark.parametrize("holds", [(BLOCKED,), (STALE,), (STALE, "checkup_reconcile_external_close_detected")])
def test_an_issue_on_hold_keeps_the_label_of_where_it_halted(phase, holds):
    assert labels_for(after(*PATHS[phase], *holds)) == OF_PHASE[phase] - {PENDING}


@pytest.mark.parametrize("later", [(), (BLOCKED,), (BLOCKED, RESUMED), (STALE,), (STALE, APPROVED)])
def test_an_adopted_issue_that_was_approved_stays_so_through_holds(later):
    assert labels_for(after("task_adopted", APPROVED, *later)) == {ADOPTED, STAGE_RUN}


@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.PENDING, Phase.VERIFIED])
def test_an_approval_in_mid_work_puts_the_labels_back(phase):
    assert labels_for(after(*PATHS[phase], STALE, APPROVED)) == OF_PHASE[phase]


def test_going_on_after_a_block_puts_pending_back():
    assert PENDING in labels_for(after(*PATHS[Phase.PENDING], BLOCKED, RESUMED))


def test_the_seven_labels_have_the_contracts_colours():
    assert COLORS == {
        "iron-tree:adopted": "0E8A16",
        "iron-tree:needs-breakdown": "D93F0B",
        "stage:task": "FBCA04",
        "stage:run": "1D76DB",
        "stage:verify": "5319E7",
        "stage:done": "0E8A16",
        "pending-acceptance": "FBCA04",
    }
    assert DESCRIPTIONS.keys() == COLORS.keys()


def test_exactly_the_labels_that_follow_the_state_are_managed():
    assert {label for labels in OF_PHASE.values() for label in labels} == MANAGED - {NEEDS_BREAKDOWN} | {ADOPTED}
