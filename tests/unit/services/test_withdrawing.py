"""Requests of work that was given up are closed, once (rulings R7, R9, R15)."""

from __future__ import annotations

import pytest

from tests.support.requests import look, merge, requesting_scene, work
from tests.support.world import ONE_TASK, Scene

CHANGED = ONE_TASK.replace("it says hello `", "it says hello to all `")
WITHOUT = "# Toy\n\n## Close\n\n- [ ] closed `$ has close.txt`\n"


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


def said(scene: Scene) -> list[str]:
    """What stands on the first request."""
    return [comment.body.partition("\n")[0] for comment in scene.tracker.comments.get(2, [])]


@pytest.mark.parametrize(("text", "why"), [(CHANGED, "approved anew"), (WITHOUT, "approved without it")])
def test_the_request_of_work_that_was_given_up_is_closed_with_the_reason(scene: Scene, text: str, why: str):
    work(scene)
    scene.publish(text)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "closed"
    assert [why in line for line in said(scene)] == [True]


def test_what_a_person_opens_again_after_that_stays_open(scene: Scene):
    work(scene)
    scene.publish(CHANGED)
    look(scene)
    scene.forge("grace").edit_pull_request(2, state="open")
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "open"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_caught_up_with_and_says_nothing_twice(scene: Scene, lost: int):
    work(scene)
    scene.publish(CHANGED)
    scene.tracker.lost_answers = lost
    look(scene)
    look(scene)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "closed"
    assert len(said(scene)) == 1


def test_what_was_merged_is_left_as_it_is(scene: Scene):
    work(scene)
    scene.publish(CHANGED)
    merge(scene)
    look(scene)
    assert said(scene) == []


def test_the_request_of_a_task_that_goes_on_is_left_alone(scene: Scene):
    work(scene)
    look(scene)
    assert scene.forge_seen.read_pull_request(2).state == "open"
    assert said(scene) == []
