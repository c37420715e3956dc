"""What becomes of an attempt: the table of ends, claims, failures and changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from irontree.domain.attempt import AttemptEvidence, Claim, how_it_ended, outcome_of, stopped_by
from irontree.domain.decide import (
    COMMENTS_EVERY,
    FIRST_WAIT,
    LONGEST_SILENCE,
    LONGEST_WAIT,
    is_due,
    next_look,
    next_try,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE, FAILED, WORDS = Claim(True, "success", "done"), Claim(False, "turn.failed", "sorry"), Claim(None, "summary", "x")

TABLE = [
    # ended, exit code, claim, failure, changed: then, check
    ("exited", 0, DONE, None, True, "verify", ""),
    ("exited", 0, DONE, None, False, "verify", ""),
    ("exited", 0, None, None, True, "verify", ""),
    ("exited", 0, None, None, False, "verify", ""),
    ("exited", 0, WORDS, None, False, "verify", ""),
    ("exited", 0, FAILED, None, True, "verify", ""),
    ("exited", 0, FAILED, None, False, "give_back", ""),
    ("exited", 1, DONE, None, True, "verify", ""),
    ("exited", 1, DONE, None, False, "give_back", ""),
    ("exited", 137, None, None, False, "give_back", ""),
    ("timeout", None, None, None, True, "verify", ""),
    ("timeout", None, None, None, False, "give_back", ""),
    ("stalled", None, FAILED, None, True, "verify", ""),
    ("stalled", None, FAILED, None, False, "give_back", ""),
    ("exited", 1, FAILED, "refused", False, "verify", ""),
    ("exited", 1, FAILED, "refused", True, "verify", ""),
    ("exited", 1, FAILED, "limit_reached", False, "verify", ""),
    ("exited", 0, FAILED, "limit_reached", True, "verify", ""),
    ("exited", 1, FAILED, "rate_limited", False, "wait", "rate-limited"),
    ("exited", 0, FAILED, "rate_limited", True, "wait", "rate-limited"),
    ("stalled", None, FAILED, "rate_limited", False, "wait", "rate-limited"),
    ("exited", 1, FAILED, "unreachable", False, "wait", "agent-unreachable"),
    ("timeout", None, FAILED, "unreachable", True, "wait", "agent-unreachable"),
    ("exited", 0, FAILED, "not_authenticated", False, "ask", "agent-not-authenticated"),
    ("exited", 0, FAILED, "not_authenticated", True, "ask", "agent-not-authenticated"),
    ("not_started", None, None, None, False, "ask", "agent-not-started"),
    ("cancelled", None, None, None, True, "give_back", ""),
    ("cancelled", None, FAILED, "rate_limited", False, "give_back", ""),
]


@pytest.mark.parametrize(("ended", "exit_code", "claim", "failure", "changed", "then", "check"), TABLE)
def test_the_outcome_follows_from_end_claim_failure_and_change(ended, exit_code, claim, failure, changed, then, check):
    outcome = outcome_of(AttemptEvidence(ended, exit_code, claim, failure), changed=changed)
    assert (outcome.then, outcome.check) == (then, check)
    assert bool(outcome.reason) == (then != "verify")


@pytest.mark.parametrize(("ended", "exit_code", "claim", "failure", "changed", "then", "check"), TABLE)
def test_what_stops_an_attempt_does_not_depend_on_its_work(ended, exit_code, claim, failure, changed, then, check):
    seen = AttemptEvidence(ended, exit_code, claim, failure)
    if stopped := stopped_by(seen):
        assert stopped == outcome_of(seen, changed=changed) == outcome_of(seen, changed=not changed)
    else:
        assert outcome_of(seen, changed=True).then == "verify"


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (AttemptEvidence("exited", 3), "ended with exit code 3"),
        (AttemptEvidence("exited", 0, FAILED), "ended with turn.failed"),
        (AttemptEvidence("timeout"), "ran out of time"),
        (AttemptEvidence("stalled"), "went silent"),
    ],
)
def test_an_end_is_told_by_the_fact_before_the_claim(seen, words):
    assert how_it_ended(seen) == words


def test_each_wait_in_a_row_is_twice_as_long_up_to_a_limit():
    waits = [next_try(NOW, count) - NOW for count in range(12)]
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT == next_try(NOW, 10**6) - NOW


def test_an_announced_time_counts_unless_it_is_past():
    later = NOW + timedelta(days=2)
    assert next_try(NOW, 5, later) == later
    assert next_try(NOW, 0, NOW - timedelta(hours=1)) == NOW + FIRST_WAIT


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-03-01T12:00:00Z", True),
        ("2026-03-01T12:00:01Z", False),
        ("2026-03-01T13:00:00+02:00", True),
        ("2026-03-01T11:00:00", False),
        ("soon", False),
        ("", False),
        (None, False),
    ],
)
def test_only_a_time_that_has_come_is_due(text, due):
    assert is_due(text, NOW) is due


@pytest.mark.parametrize(
    ("failures", "announced", "wait"),
    [
        (0, None, COMMENTS_EVERY),
        (1, None, 2 * COMMENTS_EVERY),
        (3, None, 8 * COMMENTS_EVERY),
        (99, None, LONGEST_SILENCE),
        (1, timedelta(hours=1), timedelta(hours=1)),
        (1, -timedelta(hours=1), 2 * COMMENTS_EVERY),
    ],
)
def test_comments_are_looked_at_less_often_where_the_forge_fails_and_not_before_it_allows(failures, announced, wait):
    assert next_look(NOW, failures, NOW + announced if announced else None) == NOW + wait


def test_who_looks_less_often_than_ever_is_not_hurried_by_a_failure():
    assert next_look(NOW, 1, every=timedelta(hours=1)) == NOW + timedelta(hours=1)


def test_an_attempt_that_was_stopped_at_its_budget_counts_whatever_it_has_done_by_then():
    """Given back, it would cost the same again and again."""
    for changed in (True, False):
        assert outcome_of(AttemptEvidence("over_budget"), changed=changed).then == "verify"
