"""Forms of questions: what the server checks without us."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from irontree.flows.gate.forms import make_form

ADA = {"decision": "accept", "approver": "Ada"}


@pytest.fixture
def form():
    return make_form("Decide", ["accept", "send back"], needs=["revision", "count"])


def test_a_decision_and_a_name_are_enough(form):
    filled = form(**ADA)
    assert filled.model_dump() == {**ADA, "note": "", "count": 1, "revision": ""}


def test_a_name_may_be_a_single_letter(form):
    assert form(**{**ADA, "approver": "T"}).approver == "T"


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": None},
        {"decision": "yes"},
        {"approver": ""},
        {"approver": "  "},
        {"count": 0},
        {"count": 51},
        {"revision": "not one"},
        {"other": 1},
    ],
)
def test_what_the_form_does_not_offer_is_refused(form, wrong):
    with pytest.raises(ValidationError):
        form(**{**ADA, **wrong})


@pytest.mark.parametrize("amount", ["5 USD", "$5", "0.50 usd", "200000 tokens", "2h", "1h 30m"])
def test_an_amount_is_taken_with_its_unit(amount):
    form = make_form("Decide", ["allow more to be spent"], needs=["amount"])
    assert form(decision="allow more to be spent", approver="Ada", amount=amount).amount == amount
    with pytest.raises(ValidationError):
        form(decision="allow more to be spent", approver="Ada", amount=f"up to {amount}")


def test_a_form_of_another_question_is_refused_and_nobody_has_to_fill_in_which_it_is():
    form = make_form("Decide", ["accept"], question="issue-7-4")
    assert form(**ADA).question == "issue-7-4"
    with pytest.raises(ValidationError):
        form(**ADA, question="issue-7-3")


def test_nothing_is_decided_for_the_person(form):
    """Prefect takes an empty answer to a form whose fields all have defaults."""
    assert set(form.model_json_schema()["required"]) == {"decision", "approver"}


def test_a_question_asks_for_nothing_that_it_does_not_need():
    assert set(make_form("Decide", ["accept"]).model_fields) == {"decision", "approver", "note"}
