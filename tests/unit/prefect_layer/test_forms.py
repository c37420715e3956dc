"""Forms of questions: what the server checks without us."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from irontree.domain.halt import AGENT_BUDGET, RULE, choices
from irontree.domain.spending import Budget
from irontree.flows.gate import form_for, make_form, with_page
from irontree.services.questions.questions import Question

ADA = {"decision": "accept", "approver": "Ada"}


@pytest.fixture
def form():
    return make_form("Decide", ["accept", "send back"], ["revision", "attempts"])


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
    form = make_form("Decide", ["allow more to be spent"], ["money"])
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


# --- the form of a question ---------------------------------------------------------------------------------


def labels(question: Question) -> list[str]:
    """What the form of this question asks for, in its order."""
    form = form_for(question, choices(question.rule, in_loop=True))
    return [str(info.title) for name, info in form.model_fields.items() if name not in {"note", "question"}]


def test_what_a_decision_needs_stands_right_below_it():
    asked = Question(RULE["reapproval_required"], "issue-7-4", issue_number=7)
    assert labels(asked) == [
        "Decision",
        "Name, typed as it is given above, to approve",
        "Your name, for the record",
    ]


def test_a_count_says_what_is_counted():
    assert "How many attempts, if you allow more" in labels(Question(RULE["fail_terminal"], "key", issue_number=7))
    assert "How many transitions, if you allow more" in labels(Question(RULE["loop_budget_exhausted"], "key"))


def test_more_transitions_are_by_default_as_many_as_a_task_is_given():
    asked = Question(RULE["loop_budget_exhausted"], "key")
    assert form_for(asked, asked.rule.choices).model_fields["count"].default == 10


@pytest.mark.parametrize(("unit", "example"), [("money", "5 USD"), ("tokens", "200000 tokens"), ("time", "2h")])
def test_an_amount_shows_how_the_unit_is_written_that_is_used_up(unit, example):
    asked = Question(AGENT_BUDGET, "key", budget=Budget("loop", unit, 1, 1))
    form = form_for(asked, asked.rule.choices)
    assert form.model_fields["amount"].description == f"With its unit: `{example}`."


def test_the_title_is_small_in_a_form_and_its_page_is_named_above_it():
    """Prefect shows five lines of a form's text at a time."""
    text = "# Accept #7?\n\n# Not this one"
    assert with_page("http://page", text) == ("[Open full page](http://page)\n\n#### Accept #7?\n\n# Not this one")
    assert with_page("", text).startswith("#### Accept #7?")
