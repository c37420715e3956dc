"""What contradicts the log is recorded by a legal event, once, in every phase (protocol, External Events)."""

from __future__ import annotations

import pytest

from irontree.domain.external import BY_CHECK, CLOSED, DELETED, REOPENED, detect
from irontree.domain.machine import LEGAL, evolve
from irontree.domain.state import Phase
from tests.unit.domain.histories import reach

SEEN = ("open", "closed", "gone")
EVERYWHERE = [(phase, seen, was_closed) for phase in Phase for seen in SEEN for was_closed in (False, True)]


@pytest.mark.parametrize(("phase", "seen", "was_closed"), EVERYWHERE)
def test_whatever_is_found_may_follow(phase, seen, was_closed):
    history = reach(phase)
    found = detect(history.now, seen, was_closed=was_closed, records=history.records)
    assert found is None or found.event in LEGAL[phase]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.DONE, Phase.RUNNING)])
def test_a_closed_issue_that_is_not_done_is_found_wherever_its_work_is(phase):
    history = reach(phase)
    assert detect(history.now, "closed", was_closed=False, records=history.records) is CLOSED


@pytest.mark.parametrize("seen", SEEN)
def test_a_running_attempt_is_never_cut_into(seen):
    history = reach(Phase.RUNNING)
    assert detect(history.now, seen, was_closed=False, records=history.records) is None


def test_a_done_issue_is_contradicted_only_by_being_opened_again():
    history = reach(Phase.DONE)
    found = {
        (seen, was_closed): detect(history.now, seen, was_closed=was_closed, records=history.records)
        for seen in SEEN
        for was_closed in (False, True)
    }
    assert {key: value for key, value in found.items() if value} == {("open", True): REOPENED}


@pytest.mark.parametrize("phase", [Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL, Phase.CONTAINER])
def test_an_open_issue_contradicts_nothing_while_it_is_worked_on(phase):
    history = reach(phase)
    assert detect(history.now, "open", was_closed=True, records=history.records) is None


def test_what_was_recorded_stands_also_beneath_another_hold():
    history = reach(Phase.READY).then("checkup_reconcile_external_close_detected", "task_reapproval_required")
    assert detect(history.now, "closed", was_closed=False, records=history.records) is None


def test_after_it_was_cleared_the_same_again_is_new_but_not_that_it_is_gone():
    closed = reach(Phase.READY).then("checkup_reconcile_external_close_detected", "checkup_unblocked")
    assert detect(closed.now, "closed", was_closed=False, records=closed.records) is CLOSED
    blocked = reach(Phase.READY).then("checkup_preflight_blocked")
    gone = blocked.records[-1].event.model_copy(update={"blocking_check": DELETED.check})
    records = [*blocked.records[:-1], type(blocked.records[-1])(gone)]
    state = None
    for record in records:
        state = evolve(state, record)
    assert detect(state, "gone", was_closed=False, records=records) is None


def test_every_one_has_a_reason_and_a_remedy():
    assert all(event.reason and event.remedy and event.check == check for check, event in BY_CHECK.items())
