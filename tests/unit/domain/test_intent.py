"""The intents of `task`, in the order of the protocol (Intent Resolution)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.commands import AdoptIssue, DocumentIntent, Issues, OpenIssues, ResumeLoop, Unclear, resolve_intent


def resolve(words, *files):
    return resolve_intent(words, lambda path: path in files)


@pytest.mark.parametrize("words", ["", "   ", "\n"])
def test_nothing_is_no_intent(words):
    assert resolve(words) == Unclear("Nothing was asked for.")


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        ("resume 2026-04-22-1432-a3f8b2", ResumeLoop("2026-04-22-1432-a3f8b2")),
        ("resume L continue", ResumeLoop("L")),
        ("resume  L  skip  auth-core", ResumeLoop("L", "skip", "auth-core")),
        ("resume L cancel", ResumeLoop("L", "cancel")),
        ("resume", ResumeLoop()),
        ("resume continue", ResumeLoop()),
        ("resume skip #3", ResumeLoop(action="skip", skipped="#3")),
        ("resume cancel", ResumeLoop(action="cancel")),
        ("adopt issue-12", AdoptIssue(12)),
        ("adopt #12", AdoptIssue(12)),
        ("adopt 12", AdoptIssue(12)),
        ("#12", Issues((12,))),
        ("issue-12", Issues((12,))),
        ("#12 #13", Issues((12, 13))),
        ("#13, #12 and issue-14", Issues((13, 12, 14))),
        ("#12、#13 和 #14", Issues((12, 13, 14))),
        ("#12 #12", Issues((12,))),
        ("first 5", OpenIssues(5)),
        ("Top 3 issues", OpenIssues(3)),
        ("the first 10 open issues", OpenIssues(10)),
        ("前 10 条", OpenIssues(10)),
        ("前十条 issue", OpenIssues(10)),
        ("前五个", OpenIssues(5)),
        ("前两条", OpenIssues(2)),
        ("前十二条", OpenIssues(12)),
        ("前二十三条", OpenIssues(23)),
        ("all open", OpenIssues()),
        ("All open issues", OpenIssues()),
        ("all", OpenIssues()),
        ("所有", OpenIssues()),
        ("全部 issue", OpenIssues()),
    ],
)
def test_each_form_is_understood(words, intent):
    assert resolve(words) == intent


def test_a_markdown_file_that_exists_is_a_document():
    assert resolve("docs/My spec.md", "docs/My spec.md") == DocumentIntent("docs/My spec.md")
    assert resolve("SPEC.MD", "SPEC.MD") == DocumentIntent("SPEC.MD")
    assert resolve("my  spec.md", "my  spec.md") == DocumentIntent("my  spec.md")


def test_a_markdown_file_that_does_not_exist_is_named():
    found = resolve("SPEC.md")
    assert (found.reason, "irontree example" in found.remedy) == ("there is no file SPEC.md", True)


@pytest.mark.parametrize(
    "words",
    ["fix the login", "12", "#0", "#12 and more", "first", "first 0", "first five", "前条", "前十十条", "all closed"],
)
def test_what_could_mean_several_things_is_refused_and_quoted(words):
    assert resolve(words) == Unclear(f"Cannot infer intent from “{words}”.")


def test_what_is_to_be_skipped_or_adopted_must_be_named():
    assert "“skip” is no way to resume" in resolve("resume L skip").reason
    assert "“skip” is no way to resume" in resolve("resume skip").reason
    assert "“cancel now” is no way to resume" in resolve("resume cancel now").reason
    assert resolve("adopt #1 #2") == Unclear("“#1 #2” names no single issue to adopt.", "name one: adopt issue-12")


def test_a_query_says_what_was_looked_up():
    assert Issues((12, 13)).query == "issues #12, #13"
    assert OpenIssues(5).query == "open issues labelled iron-tree:adopted, oldest first, at most 5"
    assert OpenIssues().query == "open issues labelled iron-tree:adopted, oldest first"


@given(st.text())
def test_any_words_resolve_to_something(words):
    assert resolve(words) is not None


@given(st.lists(st.integers(1, 9999), min_size=1, max_size=20, unique=True))
def test_any_list_of_issue_numbers_is_exactly_those_issues(numbers):
    assert resolve(" ".join(f"#{number}" for number in numbers)) == Issues(tuple(numbers))
