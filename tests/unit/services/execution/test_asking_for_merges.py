"""What people read about proposed work: its request is named, and its merge is what accepts it (R15)."""

from __future__ import annotations

import pytest

from irontree.services.answers.answers import Answer, validate
from irontree.services.answers.comments import look as look_at_comments
from irontree.services.questions.questions import questions_of_issues
from tests.support.requests import look, merge, request, requesting_scene, work
from tests.support.world import MANUAL_TASK, Scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


def test_what_accepts_proposed_work_is_the_merge_of_its_request(scene: Scene):
    work(scene)
    number = scene.state().request
    [question] = questions_of_issues(scene.world)
    accept = question.choices()[0]
    assert (accept.name, accept.label) == (
        "accept",
        f"merge the request #{number}, or look now whether it is merged",
    )
    assert validate(question, Answer(accept.label, "ada")) == validate(question, Answer("accept", "ada")) == accept


def test_the_comment_that_asks_for_a_merge_names_the_request_and_all_that_the_merge_decides(scene: Scene):
    work(scene, MANUAL_TASK)
    asked, (comment,) = request(scene), scene.comments()
    number, commit = scene.state().request, scene.state().commit
    assert "\nReason: Only a person can judge: it is friendly\n" in comment
    assert f"\nAction: Merge the request #{number} ({asked.url}) " in comment
    assert f"Commit [`{commit}`](https://forge.example/commit/{commit})" in comment
    assert "```diff" not in comment, "the request shows it"


def test_a_closed_request_is_told_under_a_heading_of_its_own(scene: Scene):
    work(scene)
    scene.forge_seen.edit_pull_request(scene.state().request, state="closed")
    look(scene)
    told, number = scene.comments()[-1], scene.state().request
    assert told.startswith("⚠️ The pull request was closed without being merged — #1\n")
    assert f"\nReason: Request #\N{ZERO WIDTH SPACE}{number} is closed, and main lacks its work\n" in told
    assert "\nAction: Go on (`/continue` in a comment) to have it proposed again" in told
    assert "comment `/continue` to have its work proposed again" in scene.tracker.issues[1].body
    assert "put it right" not in scene.tracker.issues[1].body


def test_no_comment_offers_to_accept_what_only_a_merge_accepts(scene: Scene):
    """It counts all the same, and looks whether the merge is there."""
    work(scene)
    assert "/send-back NOTE" in scene.comments()[-1]
    scene.forge("grace").post_comment(1, "/accept")
    assert [found.outcome for found in look_at_comments(scene.app)] == ["refused"]
    assert "merge it there: that accepts the work" in scene.comments()[-1]
    assert "What counts here now, in a comment of its own: `/send-back NOTE`" in scene.comments()[-1]
    merge(scene)
    scene.forge("grace").post_comment(1, "/accept")
    assert [found.outcome for found in look_at_comments(scene.app)] == ["taken"]
    assert scene.events()[-1] == "checkup_accept_recorded"
