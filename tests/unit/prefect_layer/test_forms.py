"""Forms of questions: what the server checks without us."""

from __future__ import annotations

import pytest
from prefect._internal.pydantic.v2_schema import create_v2_schema
from prefect.utilities import schema_tools
from pydantic import ValidationError

from irontree.domain.halt import AGENT_BUDGET, RULE, choices
from irontree.domain.spending import Budget
from irontree.flows.gate import OUT_OF_DATE, form_for, make_form, with_page
from irontree.services.questions.questions import Question

ADA = {"decision": "accept", "approver": "Ada"}


@pytest.fixture
def form():
    return make_form("Decide", ["accept", "send back"], ["attempts"])


def test_a_decision_and_a_name_are_enough(form):
    filled = form(**ADA)
    assert filled.model_dump() == {**ADA, "note": "", "count": 1, "question": "", "revision": ""}


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


def shown(form) -> dict:
    """The schema as Prefect stores it with a question."""
    return create_v2_schema(form.__name__, model_base=form.with_initial_data(description="why"))


def said(form, answer) -> str:
    """Why Prefect refuses that answer."""
    with pytest.raises(schema_tools.ValidationError) as refused:
        schema_tools.validate(answer, shown(form), raise_on_error=True)
    return str(refused.value)


def test_no_field_is_to_be_filled_in_but_the_decision_the_name_and_a_note():
    form = make_form("Decide", ["accept"], question="issue-7-4", revision="0123456789abcdef", approver="Ada")
    schema = shown(form)
    assert [field["title"] for field in schema["properties"].values()] == [
        "Decision",
        "Your name, for the record",
        "Note, for the next attempt or the record",
    ]
    _, name, _ = schema["properties"]
    assert schema["required"] == ["decision", name], "what is required is not called optional"
    assert schema["properties"][name]["default"] == "Ada"


def test_the_name_of_the_approvers_field_says_what_was_answered():
    form = make_form("Decide", ["accept"], question="issue-7-4", revision="0123456789abcdef")
    answer = {"decision": "accept", "approver of issue-7-4 at 0123456789abcdef": "Ada"}
    schema_tools.validate(answer, shown(form), raise_on_error=True)
    filled = form(**answer)
    assert (filled.approver, filled.question, filled.revision) == ("Ada", "issue-7-4", "0123456789abcdef")


@pytest.mark.parametrize("other", ["approver of issue-7-3", "approver of issue-7-4 at 0000000000000000"])
def test_a_form_of_another_question_or_revision_is_refused_with_a_sentence(other):
    form = make_form("Decide", ["accept"], question="issue-7-4", revision="0123456789abcdef")
    assert OUT_OF_DATE in said(form, {"decision": "accept", other: "Ada", "note": ""})


def test_an_incomplete_form_is_told_what_is_missing():
    form = make_form("Decide", ["accept"], question="issue-7-4")
    assert "'decision' is a required property" in said(form, {"approver of issue-7-4": "Ada"})
    assert "'approver of issue-7-4' is a required property" in said(form, {"decision": "accept"})


def test_a_terminal_can_name_the_revision_itself():
    form = make_form("Decide", ["accept"], question="issue-7-4", revision="0123456789abcdef")
    answer = {"decision": "accept", "approver of issue-7-4 at 0123456789abcdef": "Ada", "revision": "f" * 16}
    schema_tools.validate(answer, shown(form), raise_on_error=True)
    assert form(**answer).revision == "f" * 16


def test_nothing_is_decided_for_the_person(form):
    """Prefect takes an empty answer to a form whose fields all have defaults."""
    assert set(shown(form)["required"]) == {"decision", "approver"}


def test_a_question_asks_for_nothing_that_it_does_not_need():
    assert set(shown(make_form("Decide", ["accept"]))["properties"]) == {"decision", "approver", "note"}


# --- the form of a question ---------------------------------------------------------------------------------


def labels(question: Question) -> list[str]:
    """What the form of this question asks for, in its order."""
    form = form_for(question, choices(question.rule, in_loop=True))
    return [field["title"] for name, field in shown(form)["properties"].items() if name != "note"]


def test_what_a_decision_needs_stands_right_below_it():
    asked = Question(RULE["fail_terminal"], "issue-7-4", issue_number=7)
    assert labels(asked) == ["Decision", "How many attempts, if you allow more", "Your name, for the record"]


def test_nobody_types_the_name_of_what_is_approved():
    asked = Question(RULE["reapproval_required"], "issue-7-4", issue_number=7)
    assert labels(asked) == ["Decision", "Your name, for the record"]


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
