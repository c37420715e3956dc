"""What a reviewer may say, and what of it counts (R18)."""

from __future__ import annotations

import json

import pytest

from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.review import Assessment, InvalidAnswer, cited, line_of_quote, read_assessment, requested_changes

NODE = PlanNode(
    task_key="greeting",
    title="Greeting",
    criteria=(Criterion(text="it says hello"), Criterion(text="it is friendly", manual=True)),
)
EVIDENCE = [{"file": "greet.txt", "line": 1, "quote": "hello"}]


def line_of(path: str, quote: str) -> int | None:
    return 7 if (path, quote) == ("greet.txt", "hello") else None


def read(**answer: object) -> Assessment | InvalidAnswer:
    return read_assessment(json.dumps(answer), NODE, line_of)


def usable(**answer: object) -> Assessment:
    verdict = read(**answer)
    assert isinstance(verdict, Assessment)
    return verdict


def test_an_approval_needs_no_more_than_the_word():
    assert usable(verdict="approve").approves


def test_nobody_approves_what_misses_a_criterion():
    assert not usable(verdict="approve", criteria=[{"criterion": 1, "met": False}]).approves


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"verdict": "fine"}, "verdict: Input should be 'approve' or 'request_changes'"),
        ({}, "verdict: Field required"),
        ({"verdict": "approve", "score": 10}, "score: Extra inputs are not permitted"),
        ({"verdict": "request_changes"}, "`request_changes` needs a finding that says what to change"),
        (
            {"verdict": "approve", "criteria": [{"criterion": 3, "met": True}]},
            "there is no criterion 3: this task has 2",
        ),
        (
            {
                "verdict": "approve",
                "criteria": [{"criterion": 1, "met": True, "evidence": [{"file": "greet.txt", "quote": "adieu"}]}],
            },
            "greet.txt does not hold the quoted text 'adieu'",
        ),
    ],
)
def test_an_answer_that_cannot_be_used_says_why(answer: dict[str, object], problem: str):
    assert read(**answer) == InvalidAnswer((problem,))


@pytest.mark.parametrize("text", ["", "Looks good to me!", "[]", "```json\n{}\n```"])
def test_prose_is_no_verdict(text: str):
    assert isinstance(read_assessment(text, NODE, line_of), InvalidAnswer)


def test_evidence_covers_the_criterion_that_it_is_cited_for():
    verdict = usable(verdict="approve", criteria=[{"criterion": 1, "met": True, "evidence": EVIDENCE}])
    assert cited(verdict, NODE, line_of) == {"it says hello": "greet.txt:7"}


def test_what_is_called_met_without_evidence_is_not_covered():
    assert cited(usable(verdict="approve", criteria=[{"criterion": 1, "met": True}]), NODE, line_of) == {}


def test_a_manual_criterion_stays_a_persons_whatever_is_cited():
    verdict = usable(verdict="approve", criteria=[{"criterion": 2, "met": True, "evidence": EVIDENCE}])
    assert cited(verdict, NODE, line_of) == {}


def test_the_words_name_what_is_not_met_and_where_something_is_to_be_changed():
    verdict = usable(
        verdict="request_changes",
        summary="Not yet.",
        findings=[{"text": "greets nobody", "file": "greet.txt", "line": 3}, {"text": "too long"}],
        criteria=[{"criterion": 1, "met": False}],
    )
    assert requested_changes(verdict, NODE) == (
        "Not yet.\n- not met: it says hello\n- greet.txt:3: greets nobody\n- too long"
    )


def test_the_line_that_is_shown_is_where_the_text_stands_and_not_what_was_said():
    evidence = [{"file": "greet.txt", "line": -3, "quote": "hello"}]
    verdict = usable(verdict="approve", criteria=[{"criterion": 1, "met": True, "evidence": evidence}])
    assert cited(verdict, NODE, line_of) == {"it says hello": "greet.txt:7"}


@pytest.mark.parametrize("quote", ["", " \n", "}", "a b"])
def test_nothing_is_no_evidence(quote: str):
    judged = {"criterion": 1, "met": True, "evidence": [{"file": "greet.txt", "quote": quote}]}
    found = read(verdict="approve", criteria=[judged])
    assert found == InvalidAnswer((f"{quote!r} is too little to quote from greet.txt",))


@pytest.mark.parametrize(
    ("quote", "line"),
    [("one", 1), ("two  three", 2), ("three\n  four", 2), ("thr", 2), ("five", None), ("four five", None)],
)
def test_a_quotation_is_found_whatever_the_white_space(quote: str, line: int | None):
    assert line_of_quote("one\n\ttwo three\nfour\n", quote) == line
