"""`irontree.forge_changed`: for what is new, once a minute at most, sooner where a webhook hints at it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.flows.serve.chores import EVERY, ForgeChanges
from tests.support.world import MANUAL_TASK, make_scene

PAGE = "https://forge.example/ada/texts"
TOLD = "changed on the forge: #1"


@pytest.fixture
def scene(tmp_path):
    scene = make_scene(tmp_path)
    scene.preferences = replace(scene.preferences, tracker=PAGE)
    scene.drive(scene.start(MANUAL_TASK))
    return scene


def told_nobody(app, numbers) -> None:
    assert numbers


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_others_changed_is_told_once_with_the_next_look(scene):
    clock = Clock()
    changes = ForgeChanges(told_nobody, clock)
    assert list(changes(scene.app)) == []
    scene.forge_seen.edit_issue(1, state="closed")
    assert list(changes(scene.app)) == [], "it was looked at a moment ago"
    clock.now += EVERY
    assert list(changes(scene.app)) == [TOLD]
    clock.now += EVERY
    assert list(changes(scene.app)) == []


def test_a_hint_has_its_repository_looked_at_at_once_and_no_other(scene):
    changes = ForgeChanges(told_nobody, Clock())
    list(changes(scene.app))
    scene.forge_seen.edit_issue(1, state="closed")
    changes.hint("https://forge.example/ada/others")
    assert list(changes(scene.app)) == []
    changes.hint(f"{PAGE.upper()}/")
    assert list(changes(scene.app)) == [TOLD]


def test_many_hints_make_one_event_a_minute(scene):
    clock = Clock()
    changes = ForgeChanges(told_nobody, clock)
    for state in ("closed", "open", "closed"):
        scene.forge_seen.edit_issue(1, state=state)
        changes.hint(PAGE)
        told = list(changes(scene.app))
        assert told == ([TOLD] if state == "closed" and clock.now == Clock.now else [])
        clock.now += 1
    clock.now += EVERY
    assert list(changes(scene.app)) == [], "it is as it was told"


def test_whoever_restarts_tells_what_still_stands(scene):
    scene.forge_seen.edit_issue(1, state="closed")
    assert list(ForgeChanges(told_nobody, Clock())(scene.app)) == [TOLD]
    assert list(ForgeChanges(told_nobody, Clock())(scene.app)) == [TOLD]
