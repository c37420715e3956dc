"""A merge is taken up by whoever looks at comments: every 30 seconds, with one call for each request (R15)."""

from __future__ import annotations

import pytest

from irontree.errors import Busy
from irontree.ports import Links
from irontree.services.answers.lookout import take_merges
from tests.support.requests import merge, requesting_scene, work
from tests.support.watching import Watched
from tests.support.world import Scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    scene = requesting_scene(tmp_path)
    work(scene)
    return scene


def watched(scene: Scene) -> list[str]:
    """What is asked of the forge from now on."""
    asked: list[str] = []
    methods = ("read_pull_request", "reviews", "commit_checks", "comments", "read_issue")
    scene.forge_seen = Watched(
        scene.forge_seen, methods, lambda name, side: asked.append(name) if side == "after" else None
    )
    return asked


def test_a_request_that_is_open_takes_one_call_and_changes_nothing(scene):
    asked, before = watched(scene), scene.events()
    assert not take_merges(scene.app)
    assert asked == ["read_pull_request"]
    assert scene.events() == before


def test_a_merge_is_recorded_and_answers_the_question(scene):
    merge(scene)
    assert take_merges(scene.app)
    assert "checkup_accept_recorded" in scene.events()
    asked = watched(scene)
    assert not take_merges(scene.app)
    assert asked == []


def test_a_request_that_was_closed_is_asked_about(scene):
    scene.forge_seen.edit_pull_request(scene.state().request, state="closed")
    assert take_merges(scene.app)
    assert scene.state().blocking_check == "request-closed"
    assert not take_merges(scene.app)


def test_while_somebody_drives_they_look_themselves(scene):
    merge(scene)
    with scene.driver.hold("a step"), pytest.raises(Busy):
        take_merges(scene.app)
    assert "checkup_accept_recorded" not in scene.events()


class InFiles:
    """A forge of files: what is merged there only git can tell."""

    links = Links(None)

    def __init__(self, forge) -> None:
        self._forge = forge

    def __getattr__(self, name: str):
        return getattr(self._forge, name)


def test_requests_in_files_are_looked_at_each_time(scene):
    scene.forge_seen = InFiles(scene.forge_seen)
    asked, before = watched(scene), scene.events()
    assert not take_merges(scene.app)
    assert "reviews" in asked
    assert scene.events() == before
    merge(scene)
    assert take_merges(scene.app)
