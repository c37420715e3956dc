"""A forge that would refuse the code stops the first attempt, with the remedy, and no later one."""

from __future__ import annotations

from typing import Any

from tests.support.world import MANUAL_TASK, Scene, make_scene


class Protecting:
    """A forge whose branches are protected from us."""

    def __init__(self, forge: Any) -> None:
        self._forge = forge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def may_push(self, branch: str) -> bool:
        return branch != "main"


def protecting(tmp_path) -> Scene:
    scene = make_scene(tmp_path)
    scene.forge_seen = Protecting(scene.forge_seen)
    return scene


def test_a_protected_branch_stops_the_first_attempt_and_says_what_to_set(tmp_path):
    scene = protecting(tmp_path)
    scene.drive(scene.start(MANUAL_TASK))
    assert scene.state().blocking_check == "forge-protected"
    assert "publish.mode: pull_request" in scene.last().meta["remedy"]
    assert "run_started" not in scene.events()
