"""How often the same failure came in a row, by the log alone (docs/decisions/0012-same-failure.md)."""

from __future__ import annotations

import pytest

from irontree.domain.state import Phase
from tests.unit.domain.histories import COMMIT, WITH_CODE, History, reach

LATER = "2026-01-02T12:00:00Z"


def fails(history: History, found: str | None) -> History:
    """The commit of *history* fails with that fingerprint."""
    meta = {"fingerprint": found} if found else {}
    return history.then("verify_failed_retryable", verify_anchor_sha=COMMIT, meta=meta)


def again(history: History, found: str | None) -> History:
    """Another attempt that fails so."""
    return fails(history.then("run_started", WITH_CODE), found)


@pytest.mark.parametrize(
    ("found", "count"), [("a", 1), ("aa", 2), ("aaa", 3), ("aab", 1), ("aba", 1), ("a-", 0), ("a-a", 1), ("abb", 2)]
)
def test_equal_fingerprints_in_a_row_are_counted_and_another_failure_begins_anew(found, count):
    history = fails(reach(Phase.COMMITTED), found[0])
    for letter in found[1:]:
        history = again(history, None if letter == "-" else letter)
    assert history.now.same_failures == count


def test_an_attempt_that_is_given_back_does_not_end_the_row():
    history = fails(reach(Phase.COMMITTED), "a").then("run_started").then("run_interrupted")
    assert again(history, "a").now.same_failures == 2


@pytest.mark.parametrize(("not_before", "count"), [(None, 1), (LATER, 2)])
def test_a_decision_of_a_person_begins_the_row_anew_and_the_passing_of_time_does_not(not_before, count):
    meta = {"not_before": not_before} if not_before else {}
    blocked = fails(reach(Phase.COMMITTED), "a").then("checkup_preflight_blocked", meta=meta)
    assert again(blocked.then("checkup_unblocked"), "a").now.same_failures == count
