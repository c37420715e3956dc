"""What every forge promises about pull requests, reviews and what CI says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from irontree.errors import RemoteFailed
from irontree.ports import Forge, PullRequest
from tests.support.forges import HEAD_SHA, LATER_SHA, Stage

BRANCH = "feature/7-log-in"
BODY = "Closes #1\n\nParent: #2"


@pytest.fixture
def pull(stage: Stage) -> PullRequest:
    """A draft that was just opened, number 1."""
    stage.push(BRANCH, HEAD_SHA)
    return stage.ours.create_pull_request(head=BRANCH, base="main", title="Log in", body=BODY, draft=True)


def test_a_created_pull_request_is_open_and_reads_back(forge: Forge, pull: PullRequest):
    found = forge.read_pull_request(pull.number)
    assert found
    assert found == pull
    assert (pull.title, pull.body, pull.state, pull.draft) == ("Log in", BODY, "open", True)
    assert (pull.head_branch, pull.head_sha, pull.base_branch) == (BRANCH, HEAD_SHA, "main")
    assert (pull.merged, pull.merge_sha, pull.merged_by) == (False, None, None)


def test_pull_requests_and_issues_share_their_numbers(forge: Forge, pull: PullRequest):
    issue = forge.create_issue("Title", "")
    assert (pull.number, issue.number) == (1, 2)
    assert forge.read_pull_request(issue.number) is None
    assert forge.read_pull_request(99) is None


def test_a_pull_request_is_seen_as_an_issue_that_says_so(forge: Forge, pull: PullRequest):
    issue = forge.read_issue(pull.number)
    assert issue
    assert (issue.pull_request, issue.title, issue.state) == (True, "Log in", "open")


def test_a_pull_request_takes_comments_and_labels_like_an_issue(forge: Forge, pull: PullRequest):
    posted = forge.post_comment(pull.number, "looks good")
    forge.set_labels(pull.number, add=["bug"])
    issue = forge.read_issue(pull.number)
    assert forge.comments(pull.number) == (posted,)
    assert issue
    assert issue.labels == ("bug",)


def test_no_pull_request_is_taken_for_an_issue(stage: Stage):
    stage.push(BRANCH, HEAD_SHA)
    marker = "<!-- irontree:task-key auth-login -->"
    pull = stage.ours.create_pull_request(head=BRANCH, base="main", title="It", body=marker, draft=False)
    stage.ours.set_labels(pull.number, add=["wanted"])
    assert stage.ours.find_issues(marker) == stage.ours.open_issues("wanted") == ()


def test_pull_requests_are_found_by_their_branch_in_any_state_lowest_first(stage: Stage, pull: PullRequest):
    stage.push("other", LATER_SHA)
    stage.ours.create_pull_request(head="other", base="main", title="Other", body="", draft=False)
    stage.ours.edit_pull_request(pull.number, state="closed")
    second = stage.ours.create_pull_request(head=BRANCH, base="main", title="Again", body="", draft=False)
    assert [found.number for found in stage.ours.find_pull_requests(BRANCH)] == [pull.number, second.number]
    assert stage.ours.find_pull_requests("feature/7") == ()


def test_open_ones_are_listed_with_who_is_asked_to_review_them(stage: Stage, pull: PullRequest):
    stage.push("other", LATER_SHA)
    other = stage.ours.create_pull_request(head="other", base="main", title="Other", body="", draft=True)
    stage.ours.create_issue("No request", "")
    stage.ours.request_reviews(pull.number, ["writer"])
    for _ in range(2):
        asked, second = stage.ours.open_pull_requests()
        assert asked == stage.ours.read_pull_request(pull.number)
        assert (asked.requested_reviewers, second) == (("writer",), other)
    stage.ours.edit_pull_request(pull.number, state="closed")
    assert [found.number for found in stage.ours.open_pull_requests()] == [other.number]


def test_a_branch_has_one_open_pull_request_at_most(forge: Forge, pull: PullRequest):
    with pytest.raises(RemoteFailed, match=BRANCH):
        forge.create_pull_request(head=BRANCH, base="main", title="Twice", body="", draft=False)
    assert len(forge.find_pull_requests(BRANCH)) == 1


@pytest.mark.parametrize("head", ["nowhere", "main"])
def test_a_branch_that_is_not_there_or_has_nothing_new_is_named(forge: Forge, head: str):
    with pytest.raises(RemoteFailed, match=head):
        forge.create_pull_request(head=head, base="main", title="It", body="", draft=False)


def test_an_edit_changes_what_is_given_and_leaves_the_rest(forge: Forge, pull: PullRequest):
    forge.edit_pull_request(pull.number, body="Other")
    after = forge.edit_pull_request(pull.number, title="two\nlines", draft=False)
    assert after == pull._replace(title="two lines", body="Other", draft=False)
    assert forge.edit_pull_request(pull.number, draft=True).draft
    assert forge.edit_pull_request(pull.number, draft=True).draft


def test_a_pull_request_is_closed_and_opened_again(forge: Forge, pull: PullRequest):
    assert forge.edit_pull_request(pull.number, state="closed").state == "closed"
    assert forge.edit_pull_request(pull.number, state="open").state == "open"


def test_what_is_pushed_later_is_what_would_be_merged(stage: Stage, pull: PullRequest):
    stage.push(BRANCH, LATER_SHA)
    found = stage.ours.read_pull_request(pull.number)
    assert found
    assert found.head_sha == LATER_SHA


def test_a_merge_shows_who_did_it_and_its_commit(stage: Stage, pull: PullRequest):
    sha = stage.merge(pull.number)
    found = stage.ours.read_pull_request(pull.number)
    assert found
    assert (found.merged, found.state, found.merge_sha, found.merged_by) == (True, "closed", sha, "writer")
    issue = stage.ours.read_issue(pull.number)
    assert issue
    assert issue.state == "closed"


def test_reviews_come_oldest_first_with_their_verdicts(stage: Stage, pull: PullRequest):
    stage.review(pull.number, "writer", "commented", "Not yet.")
    stage.review(pull.number, "mallory", "changes_requested", "I would not.")
    stage.review(pull.number, "writer", "approved", "")
    reviews = stage.ours.reviews(pull.number)
    assert [(r.author, r.verdict, r.body) for r in reviews] == [
        ("writer", "commented", "Not yet."),
        ("mallory", "changes_requested", "I would not."),
        ("writer", "approved", ""),
    ]
    assert len({review.id for review in reviews}) == 3


def test_an_opinion_that_was_given_up_no_longer_counts(stage: Stage, pull: PullRequest):
    """Some forges dismiss it themselves; the newest of a person is the last in any case."""
    stage.review(pull.number, "writer", "changes_requested", "Not yet.")
    stage.review(pull.number, "writer", "approved", "")
    earlier, later = stage.ours.reviews(pull.number)
    assert earlier.verdict in {"changes_requested", "dismissed"}
    assert later.verdict == "approved"


def test_a_review_by_somebody_without_write_access_is_not_trusted(stage: Stage, pull: PullRequest):
    """R20: it is never turned into a command."""
    stage.review(pull.number, "mallory", "approved", "LGTM")
    assert [review.trusted for review in stage.ours.reviews(pull.number)] == [False]


def test_a_review_by_an_agent_s_account_is_not_trusted_whatever_its_rights(stage: Stage, pull: PullRequest):
    """T3: agents are no people."""
    stage.review(pull.number, "writer", "approved", "LGTM")
    assert [review.trusted for review in stage.afresh().reviews(pull.number)] == [stage.people_log_in]
    assert [review.trusted for review in stage.afresh("writer").reviews(pull.number)] == [False]


@pytest.mark.parametrize(
    "touch",
    [
        lambda forge: forge.edit_pull_request(7, title="x"),
        lambda forge: forge.reviews(7),
    ],
)
def test_touching_a_pull_request_that_is_not_there_says_which(forge: Forge, touch: Callable[[Forge], object]):
    with pytest.raises(RemoteFailed, match="#7"):
        touch(forge)


def test_a_commit_nobody_checked_has_no_checks(forge: Forge):
    assert forge.commit_checks(HEAD_SHA) == ()


def test_the_newest_status_of_each_name_counts(stage: Stage):
    stage.push(BRANCH, HEAD_SHA)
    forge = stage.ours
    forge.set_commit_status(HEAD_SHA, name="irontree/verify", state="pending", description="begun")
    forge.set_commit_status(HEAD_SHA, name="a-linter", state="failure", description="3 findings")
    forge.set_commit_status(HEAD_SHA, name="irontree/verify", state="success", description="all passed")
    checks = forge.commit_checks(HEAD_SHA)
    assert [(c.name, c.state, c.summary) for c in checks] == [
        ("a-linter", "failure", "3 findings"),
        ("irontree/verify", "success", "all passed"),
    ]
    assert forge.commit_checks(LATER_SHA) == ()


def test_a_long_description_is_cut_to_what_the_forge_takes(stage: Stage):
    stage.push(BRANCH, HEAD_SHA)
    stage.ours.set_commit_status(HEAD_SHA, name="it", state="failure", description="two\nlines " + "x" * 2000)
    (check,) = stage.ours.commit_checks(HEAD_SHA)
    assert check.summary.startswith("two lines xxx")


def test_a_forge_says_who_we_are_and_what_we_may_do(forge: Forge):
    facts = forge.about()
    assert (facts.account, facts.default_branch) == ("irontree", "main")
    assert (facts.can_write, facts.archived, facts.has_issues) == (True, False, True)
    assert facts.full_name
    assert facts.url


def test_people_are_asked_to_review_and_assigned(stage: Stage, pull: PullRequest):
    """Our own account is left out: no forge lets an author review. Who was asked already is not asked again."""
    for _ in range(2):
        stage.ours.request_reviews(pull.number, ["irontree", "writer"])
    stage.ours.assign(pull.number, ["writer"])
    asked = stage.people(pull.number)
    assert asked[0] == ["writer"]
    assert asked[1].count("writer") == 1
    assert stage.ours.read_pull_request(pull.number) == pull._replace(requested_reviewers=("writer",))
