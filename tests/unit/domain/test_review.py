"""What a reviewer may say, and what of it counts (ruling R18)."""

from __future__ import annotations

import json

import pytest

from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.review import ReviewVerdict, Unusable, cited, in_words, read_verdict

NODE = PlanNode(
    task_key="greeting",
    title="Greeting",
    criteria=(Criterion(text="it says hello"), Criterion(text="it is friendly", manual=True)),
)
EVIDENCE = [{"file": "greet.txt", "line": 1, "quote": "hello"}]


def holds(path: str, quote: str) -> bool:
    return (path, quote) == ("greet.txt", "hello")


def read(**answer: object) -> ReviewVerdict | Unusable:
    return read_verdict(json.dumps(answer), NODE, holds)


def usable(**answer: object) -> ReviewVerdict:
    verdict = read(**answer)
    assert isinstance(verdict, ReviewVerdict)
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
    assert read(**answer) == Unusable((problem,))


@pytest.mark.parametrize("text", ["", "Looks good to me!", "[]", "```json\n{}\n```"])
def test_prose_is_no_verdict(text: str):
    assert isinstance(read_verdict(text, NODE, holds), Unusable)


def test_evidence_covers_the_criterion_that_it_is_cited_for():
    verdict = usable(verdict="approve", criteria=[{"criterion": 1, "met": True, "evidence": EVIDENCE}])
    assert cited(verdict, NODE) == {"it says hello": "greet.txt:1"}


def test_what_is_called_met_without_evidence_is_not_covered():
    assert cited(usable(verdict="approve", criteria=[{"criterion": 1, "met": True}]), NODE) == {}


def test_a_manual_criterion_stays_a_persons_whatever_is_cited():
    verdict = usable(verdict="approve", criteria=[{"criterion": 2, "met": True, "evidence": EVIDENCE}])
    assert cited(verdict, NODE) == {}


def test_the_words_name_what_is_not_met_and_where_something_is_to_be_changed():
    verdict = usable(
        verdict="request_changes",
        summary="Not yet.",
        findings=[{"text": "greets nobody", "file": "greet.txt", "line": 3}, {"text": "too long"}],
        criteria=[{"criterion": 1, "met": False}],
    )
    assert in_words(verdict, NODE) == ("Not yet.\n- not met: it says hello\n- greet.txt:3: greets nobody\n- too long")
