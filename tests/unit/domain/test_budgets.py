"""Amounts as people write them, and the limits that are made of them (protocol, Budgets)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from irontree.domain.budgets import (
    EXAMPLES,
    UNITS,
    UNREPORTED,
    Amount,
    BudgetPolicy,
    SpendingLimits,
    amount_of,
    amount_text,
    approved_budgets,
    leading_amount,
    measure,
    unreadable,
)
from irontree.domain.settings import AGENT_ADAPTERS


@pytest.mark.parametrize(
    ("unit", "text", "parts"),
    [
        ("money", "2.50 USD", 2_500_000),
        ("money", "$2.5", 2_500_000),
        ("money", 20, 20_000_000),
        ("money", 0.000001, None),
        ("money", "0.000001", 1),
        ("tokens", 500000, 500_000),
        ("tokens", "500000 tokens", 500_000),
        ("time", "2h", 7_200_000),
        ("time", "1h 30m", 5_400_000),
        ("time", "90m", 5_400_000),
        ("time", "1h30m5s", 5_405_000),
    ],
)
def test_amounts_are_read_as_people_write_them(unit, text, parts):
    if parts is None:
        with pytest.raises(ValueError, match="expected an amount"):
            measure(unit, text)
    else:
        assert measure(unit, text) == parts


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("text", ["", "0", "-1", "lots", "5 EUR", "1e3", "NaN", True, "1,000", "h", "5 USD 2h"])
def test_what_is_no_amount_is_refused_with_an_example(unit, text):
    with pytest.raises(ValueError, match="expected an amount such as"):
        measure(unit, text)


def test_a_time_without_a_unit_is_no_time():
    with pytest.raises(ValueError, match="2h"):
        measure("time", 7200)


@given(st.sampled_from(UNITS), st.integers(1, 10**8))
def test_what_is_written_is_read_again_whole_seconds_of_time_and_all_parts_of_the_rest(unit, parts):
    whole = parts * 1000 if unit == "time" else parts
    assert amount_of(amount_text(unit, whole)) == Amount(unit, whole)


@pytest.mark.parametrize("text", ["20", "", "more", "5 EUR", "2 days", "0 USD", "-5 USD"])
def test_an_extension_has_to_name_a_unit_that_is_known(text):
    assert amount_of(text) is None


def test_examples_are_amounts_of_their_unit():
    assert all(amount_of(EXAMPLES[unit]).unit == unit for unit in UNITS)


def test_limits_are_kept_in_one_spelling_so_that_an_approval_does_not_depend_on_it():
    assert SpendingLimits(money=2.5, time="90m") == SpendingLimits(money="$2.50", time="1h30m")
    assert SpendingLimits(money=2.5).model_dump() == {"money": "2.50 USD", "tokens": None, "time": None}


def test_limits_of_nothing_are_refused():
    with pytest.raises(ValidationError):
        SpendingLimits(tokens=0)


def test_settings_without_a_limit_are_no_budget():
    assert approved_budgets({"time_zone": "Europe/Vienna"}) is None


def test_a_policy_is_said_in_one_line():
    policy = BudgetPolicy(
        attempt=SpendingLimits(time="30m"),
        loop=SpendingLimits(money="20 USD"),
        day=SpendingLimits(tokens=9),
        time_zone="Europe/Vienna",
    )
    assert str(policy) == "each attempt: 30m; the loop: 20.00 USD; each day (Europe/Vienna): 9 tokens"


def test_time_is_always_read_and_what_an_agent_never_says_is_known():
    assert all("time" not in units for units in UNREPORTED.values())
    assert UNREPORTED.keys() <= set(AGENT_ADAPTERS)
    policy = BudgetPolicy(issue=SpendingLimits(money=1), day=SpendingLimits(tokens=1, time="1h"))
    assert unreadable(policy, "command") == ("money", "tokens")
    assert unreadable(policy, "codex") == ("money",)
    assert unreadable(policy, "claude") == unreadable(None, "command") == ()


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("5 USD for the weekend", "5 USD"),
        ("1h 30m", "1h 30m"),
        ("2h, please", ""),
        ("2h please", "2h"),
        ("200000 tokens", "200000 tokens"),
        ("20", ""),
        ("", ""),
        ("more", ""),
    ],
)
def test_the_amount_at_the_beginning_of_an_answer_is_found_and_the_rest_is_its_note(text, amount):
    assert leading_amount(text) == amount
