"""What is read of a workflow file, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irontree.domain.workflow.lint import lint
from irontree.domain.workflow.reading import bare, read
from irontree.domain.workflow.verify import (
    ArtifactCheck,
    BrowserCheck,
    CheckList,
    HumanReview,
    ShellCheck,
    UnknownCheck,
    as_json,
    from_json,
)
from irontree.domain.workflow.workflow import Workflow, approves_itself, interpret, slug_of
from tests.support.hotl import SAMPLES, workflow

PIECES = (
    *(
        "---\n",
        "intent: x\n",
        "risk_level: high\n",
        "- [ ] **Step 1: a**\n",
        "- [x] **Step 22222222: b\n",
        "### 3. c\n",
    ),
    *("action: do\n", "loop: until ok # x\n", "max_iterations: 99999\n", "verify:\n", "verify: |\n", "gate: human\n"),
    *("  - type: artifact\n", "    path: ../x\n", "    assert:\n", "  -\n", "  command: |\n", "      a\n", "\t- x\n"),
    *("```\n", "<!--\n", "-->\n", "\n", " ", '"', "'", ":", "#", "\r", "\0", "\ufeff", "\u2028", "\ud800", "é", "|"),
)


def typed(text: str) -> Workflow:
    return interpret(read(text))[0]


def verify_of(block: str) -> object:
    return typed(workflow(f"loop: false\nverify:{block}")).steps[0].verify


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_crashes_the_reader_or_lint(text: str):
    written = read(text)
    for step in written.steps:
        assert written.lines[step.line].startswith(("- [", "### "))
    lint(text, "workflow")
    lint(text, "design")


@given(st.binary(max_size=200))
@settings(max_examples=25)
def test_no_bytes_crash_the_reader(data: bytes):
    lint(data.decode("utf-8", "replace"), "workflow")


@pytest.mark.parametrize("filler", [" ", "- ", "verify:\n", "- [ ] **Step 1: a**\n", "key: ", "```\n", '"', "x # "])
def test_a_long_text_takes_no_time_worth_telling(filler: str):
    """The limit of the test run would end a search that goes back and forth."""
    lint(f"---\nbranch: {filler * 4000}\n---\n- [ ] **Step 1: a**\nverify: {filler * 4000}\n", "workflow")


def test_the_example_of_the_document():
    found = typed((SAMPLES / "hotl-workflow-add-rate-limiting.md").read_text(encoding="utf-8"))
    assert (found.intent, found.risk_level, found.auto_approve) == ("Add rate limiting to the API", "low", True)
    assert found.success_criteria == "Rate limit tests pass, no existing tests broken"
    assert [(step.number, step.name, step.loop) for step in found.steps] == [
        (1, "Write failing tests", "false"),
        (2, "Implement rate limiting", "until tests pass"),
        (3, "Full regression check", "false"),
        (4, "Final approval", "false"),
    ]
    second, last = found.steps[1], found.steps[-1]
    assert (second.condition, second.max_iterations) == ("tests pass", 5)
    assert second.verify == ShellCheck("pytest tests/test_rate_limit.py -v")
    assert (last.gate, last.verify, last.context) == ("human", ShellCheck(""), "")


def test_headings_are_steps_too_and_boxes_may_be_ticked():
    steps = read("- [X] **Step 1: a **b****\n### 2. c\n- [ ] **Step 3: d\n- [] **Step 4: e**\n #### 5. f\n").steps
    assert [(step.number, step.name, step.ticked) for step in steps] == [
        *((1, "a **b**", True), (2, "c", None)),
        (3, "d", False),
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"a # b"', "a # b"),
        ("'a' # b", "a"),
        ("a # b", "a"),
        ("a #b", "a #b"),
        ("fix #12", "fix #12"),
        ("# b", ""),
        ('"a" and "b"', '"a" and "b"'),
        ("", ""),
    ],
)
def test_a_comment_and_quotes_are_no_part_of_a_value(written: str, value: str):
    assert bare(written) == value
    assert typed(f"---\nIntent: {written}\n---\n").intent == value


def test_prose_behind_the_fields_is_context():
    (step,) = typed(
        workflow("LOOP: false\n\nverify: true\n  more\n\n  indented\ngate: auto\n\nWords.\ngate: human")
    ).steps
    assert (step.gate, step.verify) == ("auto", ShellCheck("true"))
    assert step.context.split() == ["more", "indented", "Words.", "gate:", "human"]


def test_a_heading_ends_the_step_behind_its_fields():
    below = "\n\nOwn words.\n\n```\n# none\n```\n\n#### Hints\n\nOwn too.\n\n## Rules\n\ngate: human\n\nFor all.\n\n"
    written = read(
        "Before.\n\n" + workflow(f"loop: false\n# a remark\nverify: true{below}", "loop: false\n\n### Last\n\nEnd.")
    )
    first, second = (step.context for step in interpret(written)[0].steps)
    assert [word in first for word in ("Own words.", "# none", "Own too.", "Rules", "For all.")] == [True] * 3 + [
        False
    ] * 2
    assert (second, interpret(written)[0].steps[0].verify) == ("", ShellCheck("true"))
    common = "\n".join(written.common)
    assert [word in common for word in ("## Rules", "For all.", "### Last", "End.", "Own", "Step")] == [True] * 4 + [
        False
    ] * 2


@pytest.mark.parametrize(
    ("block", "check"),
    [
        (" a: b # c", ShellCheck("a: b # c")),
        (" |\n  one\n    two\n\n  three", ShellCheck("one\n  two\n\nthree")),
        ("\n  type: shell\n  command: |\n    one\n    - two\n", ShellCheck("one\n- two")),
        ("\n  command: x\n\n  TYPE: shell", ShellCheck("x")),
        ("\n  type: browser\n  url: http://a:1/b\n  check: it: works", BrowserCheck("http://a:1/b", "it: works")),
        ("\n  type: human-review\n  prompt: 'Look: here'", HumanReview("Look: here")),
        (
            '\n  type: artifact\n  path: "a b"\n  assert:\n    kind: contains\n    value: "x: y"',
            ArtifactCheck("a b", "contains", "x: y"),
        ),
        ("\n  type: oracle", UnknownCheck("oracle")),
        ("\n- type: shell\n  command: a\n- type: human-review", CheckList((ShellCheck("a"), HumanReview("")))),
        ("\n  -\n    type: shell\n    command: a", CheckList((ShellCheck("a"),))),
    ],
)
def test_the_ways_to_write_a_check(block: str, check: object):
    if block.startswith("\n-"):  # a list at the start of the line is none: the line would end the block
        assert verify_of(block) == ShellCheck("")
    else:
        assert verify_of(block) == check
        assert from_json(as_json(check)) == check


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("hotl-workflow-add-auth.md", "add-auth"),
        ("docs/plans/2026-04-22-sample-workflow.md", "sample"),
        ("/a/b/fix-login-workflow.md", "fix-login"),
        ("notes.md", "notes"),
    ],
)
def test_the_slug_of_a_file(path: str, slug: str):
    assert slug_of(path) == slug


@pytest.mark.parametrize(
    ("auto", "risk", "itself"),
    [(True, "low", True), (True, "medium", True), (True, "high", False), (False, "low", False)],
)
def test_which_gates_approve_themselves(auto: bool, risk: str, itself: bool):
    assert approves_itself(auto_approve=auto, risk_level=risk) is itself
