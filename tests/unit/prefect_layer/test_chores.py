"""What is done from time to time while repositories are served: when it is due, for each, and never its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from irontree.errors import EnvironmentRefused, RemoteUnavailable
from irontree.flows.serve.chores import Chore, ChoreRunner, tell_what_happened
from tests.support.world import make_scene


@pytest.fixture
def apps(tmp_path: Path):
    scenes = {name: make_scene(tmp_path / name) for name in ("one", "two")}
    for name, scene in scenes.items():
        scene.repository.id = name
    return [scene.app for scene in scenes.values()]


@pytest.fixture
def said() -> list[str]:
    return []


def chores(said, do, every=30.0) -> ChoreRunner:
    return ChoreRunner(lambda _, text: said.append(text), (Chore("look", every, do),))


def test_a_duty_is_done_for_each_repository_once_every_interval(apps, said):
    done = []
    kept = chores(said, lambda app: done.append(app.repository.id) or ())
    for now in (0, 10, 30, 35, 59, 61):
        kept.look(apps, now)
    assert done == ["one", "two", "one", "two"]


def test_one_that_is_due_at_once_is_also_done_when_a_repository_is_new(apps):
    done = []
    kept = ChoreRunner(print, (Chore("look", 30.0, lambda app: done.append(app.repository.id) or (), at_once=True),))
    for now in (5, 10, 35, 40):
        kept.look(apps[:1], now)
    assert done == ["one", "one"]


def test_what_there_is_to_say_is_said(apps, said):
    kept = chores(said, lambda _: ["found something"])
    kept.look(apps[:1], 0)
    kept.look(apps[:1], 30)
    assert said == ["found something"]


def test_what_fails_is_said_once_tried_again_and_keeps_nothing_else_from_being_done(apps, said):
    tried = []

    def fail(app):
        tried.append(app.repository.root)
        raise RemoteUnavailable("the forge is away", remedy="wait")

    kept = chores(said, fail)
    for now in (0, 30, 60, 90):
        kept.look(apps, now)
    assert len(tried) == 6
    assert said == ["the forge is away. wait"] * 2


def test_a_failure_that_comes_back_after_a_success_is_said_again(apps, said):
    outcomes = iter([True, False, True])

    def look(_):
        if next(outcomes):
            raise RemoteUnavailable("away")
        return ()

    kept = chores(said, look)
    for now in (0, 30, 60, 90):
        kept.look(apps[:1], now)
    assert said == ["away", "away"]


def test_what_keeps_several_things_from_being_done_is_said_once(apps, said):
    def fail(_):
        raise RemoteUnavailable("the folder is gone")

    kept = ChoreRunner(lambda _, text: said.append(text), (Chore("look", 30.0, fail), Chore("tell", 30.0, fail)))
    for now in (0, 30, 60):
        kept.look(apps[:1], now)
    assert said == ["the folder is gone"]


class Unwritable:
    """A lock on a disk that refuses."""

    def hold(self, what: str, *, wait_seconds: float = 0) -> None:
        raise EnvironmentRefused(f"{what}: read-only file system after {wait_seconds:.0f} s")


def test_events_that_cannot_be_told_to_prefect_are_said_once_by_who_serves(apps, said, caplog):
    """...and not by a warning each minute beside it."""
    kept = chores(said, tell_what_happened)
    for now in (0, 30, 60, 90):
        kept.look([replace(apps[0], alive=lambda _: Unwritable())], now)
    assert said == ["tell Prefect: read-only file system after 10 s"]
    assert caplog.records == []
