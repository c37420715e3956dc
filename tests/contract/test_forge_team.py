"""What every forge promises to a team: what changed, who assigned, closed and is asked, reviews of ours, and merges."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.ports import Forge, PullRequest
from tests.support.forges import HEAD_SHA, LATER_SHA, Stage

BEFORE, NEVER = "2026-01-02T11:59:00Z", "2100-01-01T00:00:00Z"
TRIES = 100
BRANCH = "feature/7-log-in"


@pytest.fixture
def opened(stage: Stage) -> PullRequest:
    """A request of ours, number 1."""
    stage.push(BRANCH, HEAD_SHA)
    return stage.ours.create_pull_request(head=BRANCH, base="main", title="Log in", body="", draft=False)


def test_who_is_assigned_is_shown_and_who_did_it_as_far_as_the_forge_says(stage: Stage):
    number = stage.ours.create_issue("Title", "").number
    assert stage.ours.assigner(number, "writer") is None
    stage.ours.assign(number, ["writer"])
    issue = stage.ours.read_issue(number)
    assert issue
    assert issue.assignees == ("writer",)
    assigned = stage.ours.assigner(number, "writer")
    assert (assigned.by if assigned else None) == ("irontree" if stage.people_log_in else None)
    [changed] = stage.ours.changed_since(BEFORE)
    assert assigned is None or assigned.at == changed.at, "it is a change, and the only one at that moment"
    assert stage.ours.assigner(number, "mallory") is None


def test_who_closed_an_issue_is_told_as_long_as_it_is_closed(stage: Stage):
    number = stage.ours.create_issue("Title", "").number
    for state, closer in (("open", None), ("closed", "irontree"), ("open", None)):
        stage.ours.edit_issue(number, state=state)
        assert stage.ours.closer(number) == (closer if stage.people_log_in else None)


@pytest.mark.parametrize("ask", [lambda forge: forge.assigner(7, "writer"), lambda forge: forge.closer(7)])
def test_of_an_issue_that_is_not_there_nobody_assigned_or_closed_anything(forge: Forge, ask: Callable[[Forge], object]):
    with pytest.raises(RemoteFailed, match="#7") as failed:
        ask(forge)
    assert not isinstance(failed.value, (RemoteUnavailable, AccessRefused))


def test_issues_that_changed_are_listed_in_any_state_without_requests(stage: Stage, opened: PullRequest):
    first, second = (stage.ours.create_issue(title, "", ["bug"]).number for title in ("First", "Second"))
    stage.ours.edit_issue(second, state="closed")
    changed = stage.ours.changed_since(BEFORE)
    assert [one.issue.number for one in changed] == [first, second]
    assert [one.issue for one in changed] == [stage.ours.read_issue(number) for number in (first, second)]
    assert all(one.at >= BEFORE for one in changed)
    assert stage.ours.changed_since(NEVER) == ()


def test_what_changes_between_two_looks_is_seen_by_the_second(stage: Stage):
    """An answer that was kept (ETag) must not hide it."""
    number = stage.ours.create_issue("Title", "").number
    assert [one.issue.title for one in stage.ours.changed_since(BEFORE)] == ["Title"]
    for _ in range(2):
        stage.ours.edit_issue(number, title="Other")
        stage.ours.assign(number, ["writer"])
        [found] = stage.ours.changed_since(BEFORE)
        assert (found.issue.title, found.issue.assignees) == ("Other", ("writer",))


def test_many_issues_come_whole_and_in_order(forge: Forge):
    numbers = [forge.create_issue("Title", "").number for _ in range(101)]
    for _ in range(2):
        assert [one.issue.number for one in forge.changed_since(BEFORE)] == numbers


def test_who_is_asked_to_review_is_told_at_least_until_they_have(stage: Stage, opened: PullRequest):
    stage.ours.request_reviews(opened.number, ["writer"])
    asked = stage.ours.read_pull_request(opened.number)
    assert asked
    assert asked.requested_reviewers == ("writer",)
    stage.review(opened.number, "writer", "commented", "Not yet.")
    later = stage.ours.read_pull_request(opened.number)
    assert later
    assert later.requested_reviewers in ((), ("writer",))


def test_a_review_of_ours_is_among_the_reviews_with_what_it_says(stage: Stage, opened: PullRequest):
    for opinion in ("commented", "changes_requested", "approved"):
        review = stage.stranger.submit_review(opened.number, opinion, f"I say: {opinion}", HEAD_SHA)
        assert (review.author, review.verdict, review.commit) == ("mallory", opinion, HEAD_SHA)
        seen = stage.ours.reviews(opened.number)[-1]
        assert (seen.id, seen.verdict, seen.body) == (review.id, opinion, f"I say: {opinion}")


def test_of_our_own_request_a_review_comments_whatever_it_says(stage: Stage, opened: PullRequest):
    """Forges refuse to have their authors judge them."""
    for opinion in ("approved", "changes_requested"):
        review = stage.ours.submit_review(opened.number, opinion, "It is fine.", HEAD_SHA)
        assert (review.author, review.verdict, review.body) == ("irontree", "commented", "It is fine.")
    assert [each.verdict for each in stage.ours.reviews(opened.number)] == ["commented", "commented"]


@pytest.mark.parametrize(
    "touch",
    [
        lambda forge: forge.submit_review(7, "commented", "x", HEAD_SHA),
        lambda forge: forge.merge_pull_request(7, HEAD_SHA),
    ],
)
def test_touching_a_request_that_is_not_there_says_which(forge: Forge, touch: Callable[[Forge], object]):
    with pytest.raises(RemoteFailed, match="#7"):
        touch(forge)


def state(stage: Stage, number: int) -> tuple[bool, str | None]:
    found = stage.ours.read_pull_request(number)
    assert found
    return found.merged, found.merged_by


def merge(forge: Forge, number: int, sha: str) -> None:
    """A real server finds out in the background whether a request can be merged; until then it may be tried again."""
    for _ in range(TRIES):
        try:
            return forge.merge_pull_request(number, sha)
        except RemoteUnavailable:
            time.sleep(0.1)
    raise AssertionError(f"#{number} stays unsettled")


def test_a_request_is_merged_at_the_commit_that_was_looked_at_and_at_no_other(stage: Stage, opened: PullRequest):
    if not stage.people_log_in:
        with pytest.raises(RemoteFailed, match="#1"):
            merge(stage.ours, opened.number, HEAD_SHA)
        return
    with pytest.raises(RemoteFailed, match="#1"):
        merge(stage.ours, opened.number, LATER_SHA)
    assert state(stage, opened.number) == (False, None)
    merge(stage.ours, opened.number, HEAD_SHA)
    assert state(stage, opened.number) == (True, "irontree")
    with pytest.raises(RemoteFailed, match="#1"):
        merge(stage.ours, opened.number, HEAD_SHA)


def test_a_draft_and_a_closed_request_are_not_merged(stage: Stage, opened: PullRequest):
    for change in ({"draft": True}, {"draft": False, "state": "closed"}):
        stage.ours.edit_pull_request(opened.number, **change)
        with pytest.raises(RemoteFailed, match="#1"):
            merge(stage.ours, opened.number, HEAD_SHA)
        assert state(stage, opened.number) == (False, None)
