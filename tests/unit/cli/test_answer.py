"""Answers on the command line: each is understood or refused before anything runs, and fits the question it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.cli.answer import option_for, prepare, read_choice, refuse_unknown
from irontree.domain.halt import AGENT_BUDGET, RULE, RULES
from irontree.domain.spending import Budget
from irontree.errors import AnswerRefused
from irontree.services.questions.questions import Question


def question(reason: str, number: int | None = 7) -> Question:
    key = f"task-{number}" if number else None
    return Question(RULE[reason], "key", issue_number=number, task_key=key, loop_id="2026-04-22-1432-a3f8b2")


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("issue-7=accept", (7, "accept", "", None, None)),
        (" issue-12=accept:fine: as it is ", (12, "accept", "fine: as it is", None, None)),
        ("issue-7=send-back:make it\nlonger", (7, "send-back", "make it\nlonger", None, None)),
        ("issue-7=reject:make it longer", (7, "send-back", "make it longer", None, None)),
        ("issue-7=retry:3", (7, "retry", "", 3, None)),
        ("issue-7=retry", (7, "retry", "", 1, None)),
        ("issue-7=retry:with care", (7, "retry", "with care", 1, None)),
        ("issue-7=retry:3:the disk was full: now it is not", (7, "retry", "the disk was full: now it is not", 3, None)),
        ("issue-7=approve:C8B7D960:seen", (7, "approve", "seen", None, "c8b7d960")),
        ("issue-7=skip", (7, "skip", "", None, None)),
        ("loop=extend:50", (None, "extend", "", 50, None)),
        ("loop=go-on", (None, "go-on", "", None, None)),
    ],
)
def test_an_answer_names_who_is_asked_the_choice_and_what_it_needs(text, understood):
    [found] = prepare([text])
    assert (found.number, found.answer.choice, found.answer.note) == understood[:3]
    assert (found.answer.count, found.answer.revision) == understood[3:]


@pytest.mark.parametrize("amount", ["5 USD", "200000 tokens", "2h"])
def test_what_agents_may_spend_more_is_an_amount_with_its_unit(amount):
    [found] = prepare([f"loop=extend:{amount}:until tomorrow"])
    answer = found.answer
    assert (answer.choice, answer.amount, answer.count, answer.note) == ("extend", amount, None, "until tomorrow")
    spent = replace(question("loop_budget_exhausted", None), rule=AGENT_BUDGET, budget=Budget("day", "time", 1, 1))
    assert found.by("ada", spent).amount == amount
    assert option_for(spent, AGENT_BUDGET.choices[0]) == "--answer 'loop=extend:2h'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accept", "is not understood"),
        ("issue-0=accept", "is not understood"),
        ("issue-7:accept", "is not understood"),
        ("issue-7=", "is not understood"),
        ("issue-7=perhaps", "there is no answer “perhaps”"),
        ("issue-7=extend:5", "there is no answer “extend”"),
        ("loop=accept", "there is no answer “accept”"),
        ("issue-7=send-back", "needs a note"),
        ("issue-7=send-back: ", "needs a note"),
        ("issue-7=reject", "needs a note"),
        ("issue-7=retry:51", "needs a count"),
        ("loop=extend:5 €", "needs a count from 1 to 50, or an amount with its unit"),
        ("issue-7=approve:c8b7", "needs the name of what is approved"),
    ],
)
def test_what_could_never_be_an_answer_is_refused_with_what_could(text, said):
    with pytest.raises(AnswerRefused, match=said) as refusal:
        prepare([text])
    assert repr(text) in refusal.value.message
    assert refusal.value.remedy


def test_an_answer_to_an_issue_that_is_not_here_is_refused_with_those_that_are():
    issues = {"first-text": 2, "parts": 1}
    refuse_unknown(prepare(["issue-2=accept", "first-text=accept", "loop=stop"]), issues)
    with pytest.raises(AnswerRefused, match="no such issue") as refusal:
        refuse_unknown(prepare(["issue-3=accept"]), issues)
    assert refusal.value.remedy == "one of issue-1, issue-2, or a task key"
    with pytest.raises(AnswerRefused, match="no such task") as refusal:
        refuse_unknown(prepare(["second-text=accept"]), issues)
    assert refusal.value.remedy == "one of first-text, parts"


@pytest.mark.parametrize(
    ("text", "reason", "number", "fits"),
    [
        ("issue-7=accept", "pending_acceptance", 7, True),
        ("task-7=accept", "pending_acceptance", 7, True),
        ("task-8=accept", "pending_acceptance", 7, False),
        ("task-7=accept", "protocol_gap", None, False),
        ("issue-7=accept", "pending_acceptance", 8, False),
        ("issue-7=accept", "fail_terminal", 7, False),
        ("issue-7=skip", "blocked", 7, True),
        ("loop=stop", "protocol_gap", None, True),
        ("loop=extend:5", "protocol_gap", None, False),
        ("issue-7=reject:longer", "pending_acceptance", 7, True),
        ("issue-7=retry", "blocked", 7, True),
        ("issue-7=retry", "pending_acceptance", 7, False),
    ],
)
def test_an_answer_waits_for_a_question_to_its_issue_that_has_its_choice(text, reason, number, fits):
    [answer] = prepare([text])
    assert answer.answers(question(reason, number)) is fits


def test_it_is_given_in_a_name_and_to_the_question_that_was_asked():
    [prepared] = prepare(["issue-7=retry:2:why"])
    given = prepared.by("Ada", question("fail_terminal"))
    assert (given.choice, given.by, given.note, given.count, given.question) == ("retry", "Ada", "why", 2, "key")


def test_the_word_of_a_verb_is_the_choice_for_which_the_verb_stands_there():
    """`irontree retry 7` allows an attempt, or goes on after a block."""
    [again] = prepare(["issue-7=retry:with care"])
    assert again.by("Ada", question("fail_terminal")).choice == "retry"
    assert again.by("Ada", question("blocked")).choice == "go-on"
    for words in ("retry: with care", "go-on: with care"):
        answer = read_choice(words, question("blocked"), begin="irontree answer 7 ")
        assert (answer.choice, answer.note) == ("go-on", "with care")


def test_an_answer_has_what_the_question_asks_for_and_nothing_else():
    """Prefect refuses a form with a field that it does not know, in words for programmers."""
    [again] = prepare(["issue-7=retry"])
    assert again.by("Ada", question("fail_terminal")).count == 1
    assert again.by("Ada", question("blocked")).count is None


@pytest.mark.parametrize("words", ["retry:3", "retry:3:why", "go-on: 3"])
def test_a_number_of_attempts_is_refused_where_none_is_asked_for_and_is_no_note(words):
    """It was one: who meant three attempts got one, and heard nothing of it."""
    with pytest.raises(AnswerRefused, match="allows no number of attempts") as refusal:
        read_choice(words, question("blocked"), begin="issue-7=")
    assert refusal.value.remedy == "`issue-7=retry` goes on; `issue-7=retry:NOTE` with a note in words"
    assert read_choice("retry:3 disks were full", question("blocked"), begin="").note == "3 disks were full"


def test_a_count_for_a_budget_of_agents_is_refused_with_an_amount_to_type():
    spent = replace(question("loop_budget_exhausted", None), rule=AGENT_BUDGET, budget=Budget("day", "time", 1, 1))
    [more] = prepare(["loop=extend:20"])
    with pytest.raises(AnswerRefused, match="`loop=extend:20` needs a count from 1 to 50, or an amount") as refusal:
        more.by("Ada", spent)
    assert "loop=extend:'5 USD'" in (refusal.value.remedy or "")


def test_a_choice_that_is_not_offered_is_refused_with_the_commands_that_are():
    """Before what it would need is looked at: nobody wants to hear of a name where nothing is to be approved."""
    with pytest.raises(AnswerRefused, match="“approve” is no answer to “Your acceptance is needed”") as refusal:
        read_choice("approve:zzz", question("pending_acceptance"), begin="irontree answer 7 ")
    assert "`irontree accept 7` | `irontree reject 7 --note 'NOTE'`" in (refusal.value.remedy or "")


def test_what_names_nothing_to_be_approved_is_told_the_name_and_how_to_see_it():
    asked = replace(question("reapproval_required"), revision="0123abcd0123abcd", look="irontree task a.md --plan")
    with pytest.raises(AnswerRefused, match="`irontree answer 7 approve:zzz` needs the name") as refusal:
        read_choice("approve:zzz", asked, begin="irontree answer 7 ")
    assert refusal.value.remedy == (
        "now it is `irontree answer 7 approve:0123abcd0123abcd`; `irontree task a.md --plan` shows it, "
        "and what would be approved"
    )


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.choices], ids=lambda rule: rule.reason)
def test_the_option_that_is_proposed_for_a_choice_is_understood_as_that_choice(rule):
    asked = question(rule.reason, 7 if rule.asked_of == "issue" else None)
    for choice in rule.choices:
        option = option_for(asked, choice)
        assert "NAME" not in option_for(replace(asked, revision="0123abcd"), choice)
        assert "NAME" not in option_for(asked, choice, "0123abcd")
        text = option.removeprefix("--answer '").removesuffix("'").replace("NAME", "c8b7d960")
        text = text.replace("NOTE", "shorter")
        [found] = prepare([text])
        assert found.answers(asked)
        assert found.by("ada", asked).choice == choice.name
