"""`irontree.forge_changed`: for what is new, once a minute at most, sooner where a webhook hints at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from irontree.errors import RemoteUnavailable
from irontree.flows.serve.changes import AT_ONCE, EVERY, ForgeChanges, RequestChanges, _Hints
from tests.support.requests import merge, requesting_scene, work
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


@pytest.fixture
def proposed(tmp_path):
    """Work that waits for the merge of its request."""
    scene = requesting_scene(tmp_path)
    scene.preferences = replace(scene.preferences, tracker=PAGE)
    work(scene)
    return scene


def test_a_merge_is_taken_up_as_soon_as_a_webhook_is_about_a_request(proposed):
    started: list[object] = []
    requests = RequestChanges(started.append, Clock())
    merge(proposed)
    assert list(requests(proposed.app)) == []
    requests.hint("https://forge.example/ada/others")
    assert list(requests(proposed.app)) == []
    requests.hint(f"{PAGE.upper()}/")
    assert len(list(requests(proposed.app))) == 1
    assert proposed.events()[-1] == "checkup_accept_recorded"
    assert len(started) == 1


def test_a_webhook_that_lies_changes_nothing(proposed):
    before = proposed.events()
    requests = RequestChanges(lambda _: None, Clock())
    requests.hint(PAGE)
    list(requests(proposed.app))
    assert proposed.events() == before


def test_a_hint_while_others_work_there_is_kept(proposed):
    requests = RequestChanges(lambda _: None, Clock())
    merge(proposed)
    requests.hint(PAGE)
    with proposed.app.driver.hold("others"):
        assert list(requests(proposed.app)) == []
    assert len(list(requests(proposed.app))) == 1


def test_many_webhooks_make_one_look_in_a_while(proposed):
    clock = Clock()
    requests = RequestChanges(lambda _: None, clock)
    for hinted in (True, False, False):
        requests.hint(PAGE)
        assert bool(list(requests(proposed.app))) is hinted
    clock.now += AT_ONCE
    assert list(requests(proposed.app))


def test_a_hint_is_kept_where_the_look_fails(proposed):
    clock, failing = Clock(), [True]

    def go_on(_: object) -> None:
        if failing:
            failing.clear()
            raise RemoteUnavailable("the server is down")

    requests = RequestChanges(go_on, clock)
    requests.hint(PAGE)
    with pytest.raises(RemoteUnavailable):
        list(requests(proposed.app))
    clock.now += AT_ONCE
    assert len(list(requests(proposed.app))) == 1
    clock.now += AT_ONCE
    assert list(requests(proposed.app)) == []


def test_each_clone_of_the_repository_follows_the_hint(proposed, scene):
    proposed.repository.id = "another"
    for changes in (RequestChanges(lambda _: None, Clock()), ForgeChanges(told_nobody, Clock())):
        list(changes(scene.app))
        scene.forge_seen.edit_issue(1, state="closed")
        changes.hint(PAGE)
        list(changes(scene.app))
        assert changes._hints.open(proposed.app)
        list(changes(proposed.app))
        assert not changes._hints.open(proposed.app)


class Interrupted(dict):
    """Where hints are kept; before one is written, another thread does this."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []

    def __setitem__(self, page: str, hint: object) -> None:
        if self.meanwhile:
            self.meanwhile.pop()()
        super().__setitem__(page, hint)


def test_a_hint_whose_thread_is_overtaken_by_another_and_by_the_look_is_kept(proposed):
    given = Interrupted()
    hints = _Hints(given)

    def overtake() -> None:
        hints.give(PAGE)
        hints.follow(proposed.app, hints.open(proposed.app))

    given.meanwhile.append(overtake)
    hints.give(PAGE)
    assert hints.open(proposed.app)
