"""Payloads that GitHub published as examples of its webhooks: the shapes are those of the REST API."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from irontree.forges import rest_values as values
from tests.support.descriptions import required


@cache
def examples(event: str) -> tuple[dict[str, Any], ...]:
    index = json.loads(required("github-webhooks").read_bytes())
    return tuple(found for entry in index if entry["name"] == event for found in entry["examples"])


def parts(event: str, key: str) -> Iterator[dict[str, Any]]:
    yield from (example[key] for example in examples(event) if key in example)


def test_every_issue_is_read():
    """One example is of an issue cut short; the API never answers with such a one."""
    issues = [values.issue_of(data, trusted=False) for data in parts("issues", "issue") if "labels" in data]
    assert len(issues) > 20
    assert all(issue.author and issue.number and issue.url.startswith("https://") for issue in issues)
    assert {issue.state for issue in issues} == {"open", "closed"}
    assert {type(label) for issue in issues for label in issue.labels} == {str}


def test_a_comment_tells_whether_it_is_on_a_pull_request():
    """There the issue has a key `pull_request`."""
    kinds = Counter(values.issue_of(data, trusted=False).pull_request for data in parts("issue_comment", "issue"))
    assert kinds[False]
    assert kinds.total() == len(examples("issue_comment"))


def test_every_comment_is_read():
    comments = [values.comment_of(data, ours=False, trusted=False) for data in parts("issue_comment", "comment")]
    assert comments
    assert all(comment.id.isdecimal() and comment.body and comment.created_at.endswith("Z") for comment in comments)


def test_every_pull_request_is_read_and_a_merge_names_who_and_what():
    pulls = [values.github_pull(data) for data in parts("pull_request", "pull_request")]
    assert len(pulls) > 20
    assert all(len(pull.head_sha) == 40 and pull.head_branch and pull.base_branch for pull in pulls)
    assert all((pull.merge_sha is not None) == (pull.merged_by is not None) == pull.merged for pull in pulls)


def test_every_review_is_read_in_the_lower_case_of_webhooks():
    reviews = [
        values.review_of(data, values.github_verdict(data), (), trusted=False)
        for data in parts("pull_request_review", "review")
        if not values.is_pending(data)
    ]
    assert reviews
    assert {review.verdict for review in reviews} <= {"approved", "changes_requested", "commented", "dismissed"}
    assert all(len(review.commit) == 40 for review in reviews)


def test_every_remark_names_its_file():
    remarks = [values.remark_of(data, None, trusted=False) for data in parts("pull_request_review_comment", "comment")]
    assert remarks
    assert all(remark.path for remark in remarks)


def test_every_check_run_has_a_state():
    runs = [values.run_check(data) for data in parts("check_run", "check_run")]
    assert runs
    assert {run.state for run in runs} <= {"pending", "success", "failure"}


@pytest.mark.parametrize("event", ["issues", "issue_comment", "pull_request"])
def test_an_association_is_one_that_is_known(event: str):
    """Of these only OWNER proves the right to write (R20)."""
    known = {
        "OWNER",
        "MEMBER",
        "COLLABORATOR",
        "CONTRIBUTOR",
        "FIRST_TIMER",
        "FIRST_TIME_CONTRIBUTOR",
        "MANNEQUIN",
        "NONE",
    }
    key = {"issues": "issue", "issue_comment": "comment", "pull_request": "pull_request"}[event]
    assert {data["author_association"] for data in parts(event, key)} <= known


def test_an_account_that_is_gone_is_a_ghost():
    (data, *_) = parts("issues", "issue")
    assert values.issue_of({**data, "user": None}, trusted=False).author == "ghost"
