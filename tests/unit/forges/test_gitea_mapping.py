"""From what Gitea shows to what the port says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.forges.rest_values import (
    checks_of,
    gitea_pull,
    is_draft,
    is_of_our_branch,
    utc,
    verdict_of,
    with_wip,
    without_wip,
)

ADA = {"login": "ada"}


def pull(**changes: Any) -> dict[str, Any]:
    """An open pull request of our own branch."""
    return {
        "number": 7,
        "title": "Log in",
        "body": "",
        "state": "open",
        "draft": False,
        "merged": False,
        "merge_commit_sha": None,
        "merged_by": None,
        "user": ADA,
        "html_url": "https://git.example/palms/iron/pulls/7",
        "head": {"label": "it", "ref": "it", "sha": "b" * 40, "repo_id": 1},
        "base": {"label": "main", "ref": "main", "sha": "a" * 40, "repo_id": 1},
        **changes,
    }


def status(identity: int, name: str, state: str) -> dict[str, Any]:
    return {"id": identity, "context": name, "status": state, "description": "", "target_url": ""}


titles = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).filter(
    lambda title: not without_wip(title)[1]
)


@given(titles, st.booleans())
def test_a_title_comes_back_without_what_says_draft(title: str, draft: bool):
    assert without_wip(with_wip(title, draft=draft)) == (title, draft)


@pytest.mark.parametrize("title", ["WIP: Log in", "wip:Log in", "[WIP] Log in", "[wip]   Log in"])
def test_people_write_drafts_in_several_ways(title: str):
    assert without_wip(title) == ("Log in", True)


def test_a_server_that_does_not_say_so_is_asked_by_title():
    old = pull(title="WIP: Log in")
    del old["draft"]
    assert is_draft(old)
    assert gitea_pull(old).title == "Log in"


def test_the_name_of_a_deleted_branch_is_kept():
    gone = pull(head={"label": "it", "ref": "refs/pull/7/head", "sha": "b" * 40, "repo_id": 1})
    assert gitea_pull(gone).head_branch == "it"
    assert is_of_our_branch(gone, "it")


@pytest.mark.parametrize("repo_id", [2, -1])
def test_a_branch_of_a_fork_is_not_ours_whatever_its_name(repo_id: int):
    """Of a fork that is deleted, no number is left."""
    assert not is_of_our_branch(pull(head={"label": "it", "repo_id": repo_id}), "it")


@pytest.mark.parametrize(
    ("state", "dismissed", "verdict"),
    [
        ("APPROVED", False, "approved"),
        ("REQUEST_CHANGES", False, "changes_requested"),
        ("COMMENT", False, "commented"),
        ("APPROVED", True, "dismissed"),
        ("PENDING", False, None),
        ("REQUEST_REVIEW", False, None),
        ("REQUEST_REVIEW", True, None),
        ("", False, None),
    ],
)
def test_only_what_was_handed_in_is_a_review(state, dismissed, verdict):
    assert verdict_of({"state": state, "dismissed": dismissed}) == verdict


def test_the_status_with_the_highest_number_is_the_newest_of_its_name():
    """Two in one second have the same time."""
    checks = checks_of([status(3, "b", "success"), status(9, "a", "failure"), status(1, "b", "pending")])
    assert [(check.name, check.state) for check in checks] == [("a", "failure"), ("b", "success")]


@pytest.mark.parametrize(
    ("said", "state"),
    [("error", "failure"), ("warning", "success"), ("skipped", "success"), ("something new", "pending")],
)
def test_every_state_of_gitea_is_one_of_ours(said, state):
    assert checks_of([status(1, "ci", said)])[0].state == state


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-01-02T13:00:00+01:00", "2026-01-02T12:00:00Z"),
        ("2026-01-02T12:00:00Z", "2026-01-02T12:00:00Z"),
        ("2026-01-01T23:30:00-05:30", "2026-01-02T05:00:00Z"),
    ],
)
def test_times_are_told_in_utc(moment, expected):
    assert utc(moment) == expected
