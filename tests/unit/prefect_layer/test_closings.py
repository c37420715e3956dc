"""What those who are notified are told of closed issues: each closing once, however often it is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import Preferences
from irontree.domain.agents import Member
from irontree.domain.settings import Automations
from irontree.flows.serve.closings import tell_closings
from irontree.tasks.artifacts import read_told, write_told
from tests.support.issues import write
from tests.support.world import Scene, make_scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = make_scene(tmp_path)
    (made.root / ".mino").mkdir()
    made.preferences = Preferences(automations=Automations(notify=("slack-webhook/team",)), type_labels=True)
    made.policy = made.policy.model_copy(update={"team": (Member(name="tester", command=("t",), account="tess"),)})
    write(made, author="tess")
    return made


def test_each_closing_is_told_once_and_another_one_again(scene: Scene):
    told: list[str] = []
    write_told(scene.app, {"issue.7": 3})
    for state in ("closed", "closed", "open", "closed"):
        scene.forge("ada").edit_issue(1, state=state)
        tell_closings(scene.app, lambda _, closing, __: told.append(f"#{closing.number} by {closing.closer}"))
    assert told == ["#1 by ada"] * 2
    assert read_told(scene.app)["issue.7"] == 3


def test_the_forge_is_not_asked_where_nobody_is_notified_and_an_outage_is_a_note(scene: Scene):
    scene.tracker.outage = "down"
    assert tell_closings(scene.app) == ()
    assert scene.notes.lines == ["the issues that were closed could not be read: down"]
    scene.preferences = Preferences(type_labels=True)
    assert tell_closings(scene.app) == ()
    assert len(scene.notes.lines) == 1
