"""A forge that would refuse the code stops the first attempt, with the remedy, and no later one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from irontree.ports import RepositoryFacts
from irontree.services.answers.answers import Answer
from tests.support.world import MANUAL_TASK, Scene, make_scene, prepared


class Refusing:
    """A forge whose branches are protected from us, or of which other *facts* hold."""

    def __init__(self, forge: Any, *, protected: bool = False, **facts: Any) -> None:
        self._forge, self._protected, self._facts = forge, protected, facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def may_push(self, branch: str) -> bool:
        return not (self._protected and branch == "main")

    def about(self) -> RepositoryFacts:
        return self._forge.about()._replace(**self._facts)  # type: ignore[no-any-return]


def refusing(tmp_path: Path, **how: Any) -> Scene:
    scene = make_scene(tmp_path)
    scene.forge_seen = Refusing(scene.forge_seen, **how)
    return scene


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        ({"has_issues": False}, "forge-issues"),
        ({"can_write": False}, "forge-access"),
        ({"can_write": False, "protected": True}, "forge-access"),
        ({"archived": True}, "forge-archived"),
    ],
)
def test_what_the_forge_would_refuse_stops_the_first_attempt(tmp_path, facts: dict[str, bool], check: str):
    scene = refusing(tmp_path, **facts)
    scene.drive(scene.start(MANUAL_TASK))
    assert scene.state().blocking_check == check
    assert "run_started" not in scene.events()


def test_whoever_goes_on_all_the_same_is_believed(tmp_path):
    """A forge does not tell everything: the push may come from another account."""
    scene = refusing(tmp_path, protected=True)
    scene.drive(scene.start(MANUAL_TASK), prepared(Answer("go-on", by="ada")))
    assert "run_started" in scene.events()


def test_a_protected_branch_stops_the_first_attempt_and_says_what_to_set(tmp_path):
    scene = refusing(tmp_path, protected=True)
    scene.drive(scene.start(MANUAL_TASK))
    assert scene.state().blocking_check == "forge-protected"
    assert "publish.mode: pull_request" in scene.last().meta["remedy"]
    assert "run_started" not in scene.events()
