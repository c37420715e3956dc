"""Issues by members that somebody closed: told of others' closings alone, and not of what our own work closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.agents import Member
from irontree.services.toolchain.closed import Closing, look_for_closings
from tests.support.issues import edit, say, write
from tests.support.requests import look, merge, requesting_scene, work
from tests.support.world import Scene

SINCE = "2000-01-01T00:00:00Z"


@pytest.fixture
def team(scene: Scene) -> Scene:
    """Issue 1 is by the member tester."""
    member = Member(name="tester", command=("tester",), account="Tess")
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    assert write(scene, "It is @slow", author="tess") == 1
    return scene


def fresh(scene: Scene, *told: int) -> list[int]:
    return [closing.number for closing in look_for_closings(scene.app, SINCE, told).fresh]


def test_what_somebody_else_closed_is_told_with_the_last_comment(team: Scene):
    say(team, 1, "Closing:\n@everybody see <!here> #3", author="eve")
    team.forge("ada").edit_issue(1, state="closed")
    [closing] = look_for_closings(team.app, SINCE, ()).fresh
    assert (closing.closer, closing.url) == ("ada", "memory:issue-1")
    assert "@slow" not in closing.title
    assert "@everybody" not in closing.last_comment
    assert "\n" not in closing.last_comment
    assert fresh(team, 1) == []


def test_an_issue_that_is_open_again_may_be_told_of_again(team: Scene):
    assert look_for_closings(team.app, SINCE, (1,)) == ((), frozenset({1}))


def test_what_its_author_closed_what_people_filed_and_who_closed_unknown(team: Scene):
    team.forge("TESS").edit_issue(1, state="closed")
    edit(team, write(team, author="ada"), state="closed")
    assert fresh(team) == []
    edit(team, write(team, author="tess"), state="closed")
    [closing] = look_for_closings(team.app, SINCE, ()).fresh
    assert closing == Closing(3, "Greeting", "somebody", "", "memory:issue-3")


@pytest.mark.parametrize("is_merged", [True, False])
def test_what_a_request_of_ours_closed_is_no_news(tmp_path: Path, is_merged: bool):
    scene = requesting_scene(tmp_path)
    member = Member(name="tester", command=("tester",), account="tess", role="reviewer", kinds=("docs",))
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    work(scene)
    edit(scene, 1, author="tess")
    if is_merged:
        merge(scene)
        assert fresh(scene) == [], "its event is still to be written"
        look(scene)
        assert fresh(scene) == []
    else:
        scene.forge("grace").edit_issue(1, state="closed")
        assert fresh(scene) == [1]


def test_without_an_account_nobody_looks(team: Scene):
    team.policy = team.policy.model_copy(update={"team": ()})
    team.tracker.outage = "down"
    assert fresh(team) == []
