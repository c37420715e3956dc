"""What people read about proposed work: its request is named, and its merge is what accepts it (R15)."""

from __future__ import annotations

import pytest

from irontree.services.answers.answers import Answer, validate
from irontree.services.questions.questions import questions_of_issues
from tests.support.requests import look, request, requesting_scene, work
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
    assert scene.comments()[-1].startswith("⚠️ The pull request was closed without being merged — #1\n")
