"""The ledger: a fold over events that no order, restart or repetition changes (protocol, Budgets)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.budgets import UNITS, Amount, BudgetPolicy, SpendingLimits
from irontree.domain.events import Record
from irontree.domain.meta import Took
from irontree.domain.spending import Budget, Extension, Spending, extension_from, ledger_of, spendings_of, taken
from tests.unit.domain.histories import event

NOON = datetime(2026, 4, 22, 12, tzinfo=UTC)
FIGURES = st.none() | st.integers(0, 10**9) | st.sampled_from(["12", "0.25", "-3", "nan", "inf", "lots", "1e40", ""])


@st.composite
def attempts(draw: st.DrawFn) -> tuple[Record, ...]:
    """A stream of attempts, ended in any way, with any figures, some of which nobody can read."""
    records = []
    for number in range(draw(st.integers(0, 6))):
        start, end = 2 * number + 1, 2 * number + 2
        usage = {key: draw(FIGURES) for key in ("input_tokens", "output_tokens", "cost_usd")}
        agent = {"ended": draw(st.sampled_from(["exited", "timeout", "not_started"])), **usage}
        kind = draw(st.sampled_from(["run_completed", "run_interrupted", "run_commit_failed"]))
        meta = {"time": (NOON + timedelta(minutes=end)).isoformat(), "seconds": draw(FIGURES), "agent": agent}
        records += [
            Record(event("run_started", sequence=start, attempt_count=1), {"time": NOON.isoformat()}),
            Record(event(kind, sequence=end, attempt_count=1), meta),
        ]
    return tuple(records)


@given(attempts(), st.randoms())
def test_the_fold_is_independent_of_order_and_never_negative(records, shuffler):
    mixed = list(records)
    shuffler.shuffle(mixed)
    found = spendings_of(records)
    assert spendings_of(mixed) == found
    assert len(found) == len(records) // 2
    assert all((spending.of(unit) or 0) >= 0 for spending in found for unit in UNITS)


@pytest.mark.parametrize(
    ("figures", "seconds", "expected"),
    [
        ({}, None, (0, 0, 0)),
        ({}, 3.5, (0, 0, 3500)),
        ({"cost_usd": 2.5}, 0, (2_500_000, 0, 0)),
        ({"cost_usd": None, "output_tokens": 7}, 0, (0, 7, 0)),
        ({"cost_usd": "lots"}, 0, (None, 0, 0)),
    ],
)
def test_what_is_said_not_to_have_been_started_takes_only_what_stands_beside_it(figures, seconds, expected):
    took = taken(Took({"ended": "not_started", **figures}), seconds)
    assert (took["money"], took["tokens"], took["time"]) == expected


def test_a_review_is_known_by_the_folder_of_the_attempt_that_it_came_after():
    """Of its own stream: one that was opened anew begins with the same numbers."""
    told = {"reviewers": [{"name": "eve", "anchor": "abc", "cost_usd": 1}]}
    records = (
        Record(event("run_started", sequence=3, attempt_count=1), {"archive_path": "issue-7-rev-a"}),
        Record(event("run_completed", sequence=4, attempt_count=1), {}),
        Record(event("verify_failed_retryable", sequence=5, attempt_count=1), told),
        Record(event("run_started", sequence=6, attempt_count=2), {}),
        Record(event("run_completed", sequence=7, attempt_count=2), told),
    )
    places = [spending.place for spending in spendings_of(records) if spending.place]
    assert places == ["issue-7/issue-7-rev-a/reviews-0003/eve"]


@given(attempts(), st.integers(0, 12))
def test_what_is_counted_stays_counted_whatever_follows(records, cut):
    """A restart in the middle finds what was there, and what comes later only adds to it."""
    before, after = spendings_of(records[:cut]), spendings_of(records)
    assert after[: len(before)] == before


SPENDINGS = st.lists(
    st.builds(
        Spending,
        issue_number=st.integers(1, 3),
        what=st.just("attempt 1"),
        at=st.integers(0, 100).map(lambda hours: (NOON + timedelta(hours=hours)).isoformat()),
        run=st.integers(0, 9),
        money=st.none() | st.integers(0, 10**9),
        tokens=st.integers(0, 10**9),
        time=st.integers(0, 10**9),
    ),
    max_size=12,
)
EXTENSIONS = st.lists(
    st.builds(
        Extension,
        scope=st.just("issue"),
        unit=st.sampled_from(UNITS),
        extra=st.integers(1, 10**9),
        unread=st.integers(0, 3),
        issue_number=st.integers(1, 3),
    ),
    max_size=5,
)
ALL = BudgetPolicy(
    **{scope: SpendingLimits(money=1, tokens=1, time="1s") for scope in ("attempt", "issue", "loop", "day")}
)


@given(SPENDINGS, EXTENSIONS, st.randoms())
def test_budgets_do_not_depend_on_the_order_in_which_spendings_and_extensions_are_found(
    spendings, extensions, shuffler
):
    mixed, more = list(spendings), list(extensions)
    shuffler.shuffle(mixed)
    shuffler.shuffle(more)
    one, other = ledger_of(spendings, extensions), ledger_of(mixed, more)
    for number in (1, 2, 3):
        assert sums(one.of_issue(ALL, number)) == sums(other.of_issue(ALL, number))


def sums(budgets: tuple[Budget, ...]) -> list[tuple[object, ...]]:
    """All but the words; of two attempts at one moment either is the newest."""
    return [
        (b.scope, b.unit, b.limit, b.unread, b.left >= 0) + ((b.spent,) if b.scope == "issue" else ()) for b in budgets
    ]


@given(SPENDINGS, EXTENSIONS)
def test_more_spent_never_opens_a_budget_and_more_allowed_never_closes_one(spendings, extensions):
    none, all_of_it = ledger_of(spendings, ()), ledger_of(spendings, extensions)
    for before, after in zip(none.of_issue(ALL, 1), all_of_it.of_issue(ALL, 1), strict=True):
        assert after.limit >= before.limit
        assert before.over or not after.over


@pytest.mark.parametrize(
    ("spent", "over", "warns"), [(0, False, False), (799, False, False), (800, False, True), (1000, True, True)]
)
def test_four_fifths_warn_and_all_of_it_is_over(spent, over, warns):
    budget = Budget("loop", "tokens", 1000, spent)
    assert (budget.over, budget.warns) == (over, warns)


def test_an_unreadable_figure_is_taken_for_too_much_and_says_which():
    spending = Spending(7, "attempt 2", NOON.isoformat(), run=4, money=None, tokens=1, time=1)
    (budget,) = ledger_of([spending], ()).of_issue(BudgetPolicy(issue=SpendingLimits(money=100)), 7)
    assert budget.over
    assert budget.words == "issue-7: attempt 2 of issue-7 does not say how much money it took, and it has a limit"


def test_allowing_more_lets_pass_only_what_was_unreadable_by_then():
    first, second = (Spending(7, "attempt 1", f"2026-04-22T1{n}:00:00Z", run=n, money=None) for n in (1, 2))
    policy = BudgetPolicy(issue=SpendingLimits(money=100))
    (asked,) = ledger_of([first], ()).of_issue(policy, 7)
    allowed = asked.extended(Amount("money", 1))
    assert not ledger_of([first], [allowed]).of_issue(policy, 7)[0].over
    assert ledger_of([first, second], [allowed]).of_issue(policy, 7)[0].over


def test_an_extension_is_the_same_after_a_way_through_the_log():
    for extension in (
        Extension("issue", "money", 5_000_000, unread=1, issue_number=7),
        Extension("loop", "tokens", 200, loop_id="2026-04-22-1200-abcdef"),
        Extension("day", "time", 7_200_000, day="2026-04-22"),
    ):
        on_disk = {key: str(value) for key, value in extension.as_meta().items()}
        assert extension_from(on_disk, "2026-04-22-1200-abcdef") == extension


@pytest.mark.parametrize(
    "meta",
    [
        None,
        "5 USD",
        {},
        {"scope": "issue", "unit": "money", "extra": "5"},
        {"scope": "issue", "unit": "money", "extra": "2h"},
        {"scope": "week", "unit": "money", "extra": "5 USD"},
        {"scope": "issue", "unit": "money", "extra": "-5 USD"},
        {"scope": "issue", "unit": "money", "extra": "5 USD", "unread": "many"},
    ],
)
def test_an_extension_that_is_unclear_allows_nothing(meta):
    assert extension_from(meta, "2026-04-22-1200-abcdef") is None


def test_the_day_is_that_of_its_zone():
    late = Spending(7, "attempt 1", "2026-04-22T22:30:00Z", run=2, money=9)
    ledger, policy = ledger_of([late], ()), BudgetPolicy(day=SpendingLimits(money=1))
    (in_utc,) = ledger.of_day(policy, date(2026, 4, 22), UTC)
    (in_vienna,) = ledger.of_day(policy, date(2026, 4, 23), ZoneInfo("Europe/Vienna"))
    assert (in_utc.spent, in_utc.until) == (9, "2026-04-23T00:00:00Z")
    assert (in_vienna.spent, in_vienna.until) == (9, "2026-04-23T22:00:00Z")


def test_what_has_no_time_counts_for_every_day_and_loop():
    lost = Spending(7, "attempt 1", "", run=2, money=9)
    ledger = ledger_of([lost], ())
    assert ledger.of_day(ALL, date(2030, 1, 1), UTC)[0].spent == 9
    assert ledger.of_loop(ALL, "loop", began=NOON.isoformat(), issues={7})[0].spent == 9


def test_what_was_spent_before_a_loop_began_or_on_other_issues_is_none_of_its():
    spent = [
        Spending(number, "attempt 1", at, run=2, money=5)
        for number, at in ((7, "2026-04-22T11:00:00Z"), (7, "2026-04-22T13:00:00Z"), (8, "2026-04-22T13:00:00Z"))
    ]
    assert ledger_of(spent, ()).of_loop(ALL, "loop", began=NOON.isoformat(), issues={7})[0].spent == 5


def test_a_verdict_that_several_events_repeat_counts_once():
    took = {"name": "eve", "anchor": "c" * 40, "seconds": 2, "cost_usd": 0.5, "input_tokens": 1, "output_tokens": 1}
    records = [
        Record(event("verify_publication_failed", sequence=n), {"time": NOON.isoformat(), "reviewers": [took]})
        for n in (4, 5)
    ]
    assert [(s.what, s.money, s.tokens, s.time) for s in spendings_of(records)] == [
        ("the review by eve", 500_000, 2, 2000)
    ]
