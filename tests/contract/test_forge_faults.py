"""What every forge that is somewhere else promises when the network, or the forge, fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irontree.errors import RemoteUnavailable
from irontree.ports import Forge
from tests.support.forges import HEAD_SHA, FallibleStage
from tests.support.stages import FALLIBLE, STAGES

MARKER = "<!-- irontree:task-key auth-login -->"


@pytest.fixture(params=FALLIBLE)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FallibleStage]:
    with STAGES[request.param](tmp_path) as opened:
        yield opened  # type: ignore[misc]


@pytest.mark.parametrize(
    "call",
    [
        lambda forge: forge.create_issue("Title", ""),
        lambda forge: forge.read_issue(1),
        lambda forge: forge.find_issues(MARKER),
        lambda forge: forge.open_issues("wanted"),
        lambda forge: forge.edit_issue(1, state="closed"),
        lambda forge: forge.comments(1),
        lambda forge: forge.post_comment(1, "x"),
        lambda forge: forge.set_labels(1, add=["x"]),
        lambda forge: forge.read_pull_request(1),
        lambda forge: forge.find_pull_requests("it"),
        lambda forge: forge.open_pull_requests(),
        lambda forge: forge.commit_checks(HEAD_SHA),
        lambda forge: forge.about(),
    ],
)
def test_an_outage_is_something_that_may_pass(stage: FallibleStage, call: Callable[[Forge], object]):
    stage.ours.create_issue("Title", "")
    stage.go_down()
    with pytest.raises(RemoteUnavailable):
        call(stage.ours)


def test_an_issue_whose_answer_was_lost_is_found_and_is_there_once(stage: FallibleStage):
    """The effect happened: who tries again looks first, and must see it."""
    stage.lose_next_answer()
    with pytest.raises(RemoteUnavailable):
        stage.ours.create_issue("Title", MARKER)
    for forge in (stage.ours, stage.afresh()):
        assert [issue.number for issue in forge.find_issues(MARKER)] == [1]


def test_a_comment_whose_answer_was_lost_is_found_and_is_there_once(stage: FallibleStage):
    number = stage.ours.create_issue("Title", "").number
    stage.lose_next_answer()
    with pytest.raises(RemoteUnavailable):
        stage.ours.post_comment(number, "said")
    assert [comment.body for comment in stage.ours.comments(number)] == ["said"]


def test_a_pull_request_whose_answer_was_lost_is_found_and_is_there_once(stage: FallibleStage):
    stage.push("it", HEAD_SHA)
    stage.lose_next_answer()
    with pytest.raises(RemoteUnavailable):
        stage.ours.create_pull_request(head="it", base="main", title="It", body="", draft=False)
    assert [pull.number for pull in stage.ours.find_pull_requests("it")] == [1]


def test_an_issue_that_listings_do_not_show_yet_is_found(stage: FallibleStage):
    for marker in ("", MARKER, "", MARKER):
        stage.ours.create_issue("Title", marker)
    stage.lag(3)
    assert [issue.number for issue in stage.afresh().find_issues(MARKER)] == [2, 4]


def test_the_first_issue_of_all_is_found_before_listings_show_any(stage: FallibleStage):
    stage.ours.create_issue("Title", MARKER)
    stage.lag(1)
    assert [issue.number for issue in stage.afresh().find_issues(MARKER)] == [1]


def test_an_issue_of_somebody_faster_that_listings_do_not_show_yet_is_found(stage: FallibleStage):
    stage.ours.create_issue("Title", "")
    stage.ours.find_issues(MARKER)
    stage.stranger.create_issue("Title", MARKER)
    ours = stage.ours.create_issue("Title", MARKER).number
    stage.lag(3)
    assert [issue.number for issue in stage.ours.find_issues_before(ours, MARKER)] == [2]


def test_part_of_a_listing_is_never_taken_for_all_of_it(stage: FallibleStage):
    for _ in range(3):
        stage.ours.create_issue("Title", MARKER)
    stage.break_listings(behind=2)
    for forge in (stage.ours, stage.afresh()):
        with pytest.raises(RemoteUnavailable):
            forge.find_issues(MARKER)


def test_what_changed_since_the_last_look_is_seen(stage: FallibleStage):
    """An adapter may remember what it listed, but not for longer than it is true."""
    number = stage.ours.create_issue("Title", MARKER).number
    other = stage.ours.create_issue("Title", "").number
    assert [issue.number for issue in stage.ours.find_issues(MARKER)] == [number]
    stage.ours.edit_issue(number, body="gone")
    stage.ours.edit_issue(other, body=MARKER)
    assert [issue.number for issue in stage.ours.find_issues(MARKER)] == [other]
