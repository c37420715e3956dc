"""The Slim Comment Invariant (R10): what is refused, what is allowed, and that `slim` makes any text fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.comments import (
    MAX_CHARACTERS,
    comment_problems,
    marked_problems,
    plain,
    reply_problems,
    slim,
    status_problems,
    told_part,
)
from irontree.domain.events import ISSUE_EVENTS, IssueEvent
from irontree.domain.loop import LOOP_EVENTS
from tests.support.hostile_texts import FRAGMENTS
from tests.support.soak import SOAK

SHA = "0123456789abcdef0123456789abcdef01234567"
MARKER = "<!-- irontree:7:mfrggzdfmztwq2lk -->"
STATUS = f"""\
❌ verify failed (retryable) — #7 — attempt 1 / 4

Reason: the tests fail

Action: none

Commit: https://example.com/commit/{SHA}

{MARKER}
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```yaml\nversion: 1\n```", "a code fence"),
        ("iron_tree:\n  version: 1", "a YAML block"),
        ("--- sequence 3 · published ---", "a dump of the event log"),
        ("Local events: .mino/events/issue-7/", "a path under .mino"),
        ("see https://example.com/blob/main/.mino/config.yml", "a path under .mino"),
        ("/home/ada/shop/.mino is there", "a path under .mino"),
        (f"its tip is {SHA}", "a bare commit SHA"),
        (f"its tip is {SHA[:7]}.", "a bare commit SHA"),
        (f"its tip is {SHA.upper()}", "a bare commit SHA"),
        (f"its tip is _{SHA[:12]}_", "a bare commit SHA"),
        ("Completion Basis: verified", "a machine field"),
        ("code_publication_state : published", "a machine field"),
        ("<!-- hidden -->", "raw HTML"),
        ("<details>", "raw HTML"),
        ("it said ghp_0123456789abcdefghijABCDEFGHIJ012345", "a secret"),
        ("see https://example.com/?key=AKIAIOSFODNN7EXAMPLE", "a secret"),
        ("fetch https://ada:hunter2@git.example.com/shop", "a login in an address"),
        ("x" * (MAX_CHARACTERS + 1), "more than 60,000 characters"),
    ],
)
def test_what_a_comment_must_not_hold_is_named(text: str, problem: str):
    assert problem in comment_problems(text)


@pytest.mark.parametrize("event", [*ISSUE_EVENTS, *LOOP_EVENTS])
def test_no_event_is_named(event: str):
    assert comment_problems(f"after {event}.") == ("the name of an event",)


@pytest.mark.parametrize("field", [name for name in IssueEvent.model_fields if "_" in name])
def test_no_field_of_an_event_is_shown(field: str):
    assert comment_problems(f"{field}: x") == ("a machine field",)
    assert comment_problems(f"- {field.replace('_', ' ').title()}: x") == ("a machine field",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The tests of the login page fail: 3 of 120.",
        f"The change: https://example.com/shop/commit/{SHA}",
        "Python < 3.11 and a->b",
        "the run started, verification failed; a dead-end facade, 123456 times",
        "loop 2026-01-02-1200-a3f8b2",
        "domino/.minor and x.mino",
        MARKER,
    ],
)
def test_ordinary_words_links_and_our_marker_are_fine(text: str):
    assert comment_problems(text) == ()


def test_a_slim_status_comment_is_fine():
    assert status_problems(STATUS) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        STATUS.replace("❌ ", ""),
        STATUS.replace("#7", "seven"),
        STATUS.replace("Action: none", "Action:"),
        STATUS.replace("Action: none\n", ""),
        STATUS.replace("Action: none", "Action: none\n\nAction: more"),
        STATUS.replace("Action: none", "Action: none\n\nand a story"),
        STATUS.replace("https://example.com", "see example.com"),
        STATUS.replace("the tests fail", "the tests fail\nat line 3"),
    ],
)
def test_a_status_comment_is_nothing_but_heading_reason_action_and_links(text: str):
    assert status_problems(text)


EVIDENCED = STATUS.replace(
    MARKER, f"### What is to be accepted\n\nCommit `{SHA}`\n\n````diff\n+```\n+<b>\n````\n\n{MARKER}"
)


def test_evidence_shows_commits_code_and_names_below_the_slim_part():
    assert status_problems(EVIDENCED) == ()
    assert SHA not in told_part(EVIDENCED.replace(f"/commit/{SHA}", ""))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("+<b>", "+ghp_0123456789abcdefghijABCDEFGHIJ012345", "a secret"),
        ("+<b>", "+https://ada:hunter2@git.example.com/shop", "a login in an address"),
        ("+<b>", "+<!-- irontree:7:other -->", "raw HTML"),
        ("Commit `", "<b> Commit `", "raw HTML"),
        ("+<b>", f"+{'x' * MAX_CHARACTERS}", "more than 50,000 characters of evidence"),
        ("the tests fail", "run_started failed", "the name of an event"),
    ],
)
def test_what_evidence_must_not_hold_is_named(old: str, new: str, problem: str):
    assert status_problems(EVIDENCED.replace(old, new)) == (problem,)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_slim_makes_any_text_fit(text: str):
    assert comment_problems(slim(text)) == ()


@pytest.mark.parametrize(
    ("text", "slimmed"),
    [
        (f"its tip is {SHA[:12]}", "its tip is (commit)"),
        ("1048576 bytes", "1,048,576 bytes"),
        ("run_started failed", "run started failed"),
        ("see '/home/ada/shop/.mino/config.yml'", "see '(a local file)'"),
        ("merge file:///home/ada/shop/.mino/forge/pulls/0003.md.", "merge .mino/forge/pulls/0003.md"),
        ("see .mino/forge/issues/0003.md", "see .mino/forge/issues/0003.md"),
        ("see .mino/forge/issues/0003.md/../x", "see (a local file)"),
        ("see .mino/forge/issues/0003/comments/0001.md", "see (a local file)"),
        (f"see https://example.com/{SHA}", f"see https://example.com/{SHA}"),
    ],
)
def test_slim_says_the_same_in_other_words(text: str, slimmed: str):
    assert slim(text) == slimmed


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_plain_makes_any_text_fit_for_a_reply(text: str):
    assert reply_problems(plain(text)) == ()


@pytest.mark.parametrize("badge", "❌🚫⏸⚠✅✔✖⏳🟢🔴🟡")
def test_a_reply_is_prose_without_status_badges(badge: str):
    assert reply_problems(f"Your request is done {badge}") == ("a status badge",)
    assert plain(f"{badge}\ufe0f done") == " done"


def test_a_comment_is_judged_by_the_class_that_its_first_line_tells():
    assert marked_problems(STATUS) == ()
    assert marked_problems(STATUS.replace("Action: none", "")) == ("more or less than Reason, Action and links",)
    assert marked_problems(f"Your request is done.\n\n{MARKER}\n") == ()
    assert marked_problems(f"Your request is done: run_completed.\n\n{MARKER}\n") == ("the name of an event",)


def test_what_has_no_marker_of_ours_is_nobody_s_business():
    assert marked_problems("```yaml\niron_tree:\n```") == ()


def test_slim_calls_nobody():
    assert slim("ask @ada") == "ask @\N{ZERO WIDTH SPACE}ada"


@pytest.mark.parametrize("filler", ["x", "-", " ", "\n", "a/", "<", "1", "run_", ".mino"])
def test_a_large_text_takes_no_time_worth_telling(filler: str):
    """The limit of the test run would end a search that goes back and forth; `make soak` sees one that grows slowly."""
    assert comment_problems(slim(filler * (100_000 if SOAK else 1000))[:1000]) == ()
