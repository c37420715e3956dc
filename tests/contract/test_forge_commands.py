"""What every forge promises to who looks for answers in comments: what is new, by whom, and whether edited."""

from __future__ import annotations

import pytest

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.ports import Forge
from tests.support.forges import HEAD_SHA, Stage

BEFORE, AFTER = "2026-01-02T11:59:00Z", "2026-01-02T12:05:00Z"
"""The clocks of all stages stand at noon."""


def asked(forge: Forge) -> int:
    return forge.create_issue("Title", "").number


def test_comments_since_a_moment_are_those_of_then_and_later(stage: Stage):
    number = asked(stage.ours)
    posted = [stage.ours.post_comment(number, text) for text in ("first", "second")]
    assert list(stage.ours.comments_since(number, BEFORE)) == posted
    assert [comment.id for comment in stage.ours.comments_since(number, posted[0].created_at)] == [
        comment.id for comment in posted
    ]
    assert stage.ours.comments_since(number, AFTER) == ()


def test_what_is_posted_between_two_looks_is_seen_by_the_second(stage: Stage):
    """An answer that was kept (ETag) must not hide it."""
    number = asked(stage.ours)
    assert stage.ours.comments_since(number, BEFORE) == ()
    stage.stranger.post_comment(number, "/accept")
    assert [comment.author for comment in stage.ours.comments_since(number, BEFORE)] == ["mallory"]
    assert [comment.body for comment in stage.ours.comments_since(number, BEFORE)] == ["/accept"]


def test_many_comments_come_whole_and_in_order(stage: Stage):
    number = asked(stage.ours)
    texts = [f"comment {index}" for index in range(101)]
    for text in texts:
        stage.ours.post_comment(number, text)
    for _ in range(2):
        assert [comment.body for comment in stage.ours.comments_since(number, BEFORE)] == texts


def test_where_somebody_commented_is_seen_of_all_issues_at_once(stage: Stage):
    first, second = asked(stage.ours), asked(stage.ours)
    asked(stage.ours)
    assert stage.ours.commented_since(BEFORE) == ()
    stage.ours.post_comment(second, "x")
    stage.stranger.post_comment(first, "y")
    marks = stage.ours.commented_since(BEFORE)
    assert sorted(mark.issue_number for mark in marks) == [first, second]
    assert {mark.at for mark in marks} == {"2026-01-02T12:00:00Z"}
    assert stage.ours.commented_since(AFTER) == ()


def test_a_comment_that_is_edited_has_another_mark(stage: Stage):
    number = asked(stage.ours)
    posted = stage.ours.post_comment(number, "first")
    before = stage.ours.commented_since(BEFORE)
    assert stage.ours.commented_since(BEFORE) == before
    stage.change_comment(number, posted.id, "/accept")
    [mark] = stage.ours.commented_since(BEFORE)
    assert (mark.issue_number, mark in before) == (number, False)


def test_comments_of_requests_are_seen_too(stage: Stage):
    stage.push("it", HEAD_SHA)
    number = stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False).number
    stage.ours.post_comment(number, "x")
    assert [mark.issue_number for mark in stage.ours.commented_since(BEFORE)] == [number]


def test_an_issue_that_is_not_there_has_no_comments_to_look_for(forge: Forge):
    """That is no outage, and no reason to ask nothing about other issues: we are let in."""
    with pytest.raises(RemoteFailed) as failed:
        forge.comments_since(7, BEFORE)
    assert not isinstance(failed.value, (RemoteUnavailable, AccessRefused))


def test_a_comment_that_was_changed_says_so_where_people_log_in(stage: Stage):
    """Others than its author may change it: it is nobody's word any more."""
    number = asked(stage.ours)
    posted = stage.ours.post_comment(number, "first")
    assert not posted.edited
    stage.change_comment(number, posted.id, "/accept")
    (found,) = stage.ours.comments_since(number, BEFORE)
    assert found.body == "/accept"
    assert found.edited or not stage.people_log_in


def test_who_may_write_is_us_and_those_who_may_and_nobody_else(stage: Stage):
    assert stage.ours.may_write("irontree")
    assert stage.ours.may_write("writer") or not stage.people_log_in
    assert not stage.ours.may_write("mallory")
    assert not stage.ours.may_write("nobody-of-that-name")


def test_an_agent_s_account_says_nothing_that_counts_whatever_its_rights_and_our_issues_stay_ours(stage: Stage):
    """T3: agents are no people, with the account that we write under too."""
    number = stage.ours.create_issue("Log in", "Text").number
    stage.ours.post_comment(number, "/approve")
    for agents, writer, us in (
        ((), stage.people_log_in, True),
        (("writer",), False, True),
        (("irontree",), None, False),
    ):
        forge = stage.afresh(*agents)
        assert writer is None or forge.may_write("writer") is writer
        assert [comment.trusted for comment in forge.comments(number)] == [us] or not stage.people_log_in
        assert forge.may_write("irontree") is us or not stage.people_log_in
        issue = forge.read_issue(number)
        assert issue
        assert issue.trusted


def test_who_may_write_is_asked_anew_each_time(stage: Stage):
    """Somebody may have lost the right since."""
    if not stage.people_log_in:
        pytest.skip("nobody but the account itself has a right there")
    assert stage.ours.may_write("writer")
    stage.dismiss("writer")
    assert not stage.ours.may_write("writer")
