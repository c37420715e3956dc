"""Figures that no agent can mean: none of them is counted, and none ends the program that reads them."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest

from irontree.agents.acp_messages import read_update
from irontree.agents.meter import Meter
from irontree.agents.presets import claude, mini
from irontree.agents.reading import number_at
from irontree.domain.attempt import Usage
from irontree.domain.budgets import Allowance

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
IMPOSSIBLE = ["NaN", "1e999", "-1e999", "-3", "1e12"]


@pytest.mark.parametrize("amount", IMPOSSIBLE)
def test_a_cost_in_the_agent_client_protocol_that_cannot_be_meant_is_none(amount):
    update = (
        f'{{"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {{"amount": {amount}, "currency": "USD"}}}}'
    )
    assert read_update({"sessionId": "s", "update": json.loads(update)}, "s") is None


@pytest.mark.parametrize("amount", IMPOSSIBLE)
def test_a_cost_in_a_record_that_cannot_be_meant_is_none(amount):
    line = f'{{"type": "result", "subtype": "success", "result": "", "total_cost_usd": {amount}}}'
    assert claude.read([line], NOW).usage.cost_usd is None


@pytest.mark.parametrize("cost", ["1.2.3", ".", "9" * 400])
def test_a_cost_in_words_that_cannot_be_meant_is_none(cost):
    assert mini.add(Usage(), f"mini-swe-agent (step 1, ${cost})") == Usage()


def test_tokens_below_zero_give_nothing_back():
    assert number_at({"tokens": -5}, "tokens") is None


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
def test_a_meter_goes_on_whatever_it_reads(cost):
    meter = Meter(Allowance(money=1), threading.Event(), lambda: Usage(cost_usd=cost))
    assert not meter.is_set()
