"""Who is asked to review a request, and whom it is assigned to (`publish.reviewers`, `publish.assignees`)."""

from __future__ import annotations

import pytest

from irontree.errors import RemoteFailed
from irontree.ports import CommitCheck
from tests.support.requests import Refusing, look, request, requesting_scene, work
from tests.support.world import Scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


def asking(scene: Scene) -> Scene:
    """A scene whose plan names who reviews and who is assigned."""
    people = {"reviewers": ("grace", "us"), "assignees": ("bob",)}
    publish = scene.policy.publish.model_copy(update=people)
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    return scene


def test_reviewers_are_asked_and_people_assigned_once_when_it_is_ready(scene: Scene):
    work(asking(scene))
    assert (scene.tracker.assignees, scene.tracker.requested) == ({1: ("bob",), 2: ("bob",)}, {2: ("grace",)})
    scene.tracker.requested.clear()
    scene.tracker.assignees.clear()
    look(scene)
    assert (scene.tracker.assignees, scene.tracker.requested) == ({}, {}), "whoever takes it back has a reason"


def test_nobody_is_asked_while_ci_is_at_work(scene: Scene):
    scene.tracker.check(scene.repository.remote["main"], CommitCheck("build", "success", ""))
    work(asking(scene))
    scene.tracker.check(request(scene).head_sha, CommitCheck("build", "pending", ""))
    look(scene)
    assert scene.tracker.requested == {}
    scene.tracker.check(request(scene).head_sha, CommitCheck("build", "success", ""))
    look(scene)
    assert scene.tracker.requested == {2: ("grace",)}


def test_an_account_that_cannot_be_asked_is_a_warning_and_stops_nothing(scene: Scene):
    class Strict(Refusing):
        def __getattr__(self, name: str):
            def refuses(*_: object) -> None:
                raise RemoteFailed("there is no account grace")

            return refuses if name == self._method else getattr(self._forge, name)

    scene.forge_seen = Strict(scene.forge_seen, "request_reviews")
    work(asking(scene))
    assert scene.deliveries.load(1).warnings == ("publish.reviewers of request #2: there is no account grace",)
    assert not request(scene).draft
    assert scene.tracker.assignees[2] == ("bob",)


def test_an_outage_delays_the_asking(scene: Scene):
    up, scene.forge_seen = scene.forge_seen, Refusing(scene.forge_seen, "request_reviews")
    work(asking(scene))
    assert scene.tracker.requested == {}
    scene.forge_seen = up
    look(scene)
    assert scene.tracker.requested[2] == ("grace",)


def test_nobody_is_asked_twice_where_the_outage_begins_between_asking_and_assigning(scene: Scene):
    up, scene.forge_seen = scene.forge_seen, Refusing(scene.forge_seen, "assign")
    work(asking(scene))
    assert scene.tracker.requested.pop(2) == ("grace",)
    scene.forge_seen = up
    look(scene)
    assert scene.tracker.assignees[2] == ("bob",)
    assert scene.tracker.requested == {}, "grace has reviewed, or was taken out"
