"""What automations are told besides the log: once, though several processes look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from irontree.app import App, Preferences
from irontree.domain.agents import Member
from irontree.domain.settings import Automations
from irontree.flows.runs.runs import RunInfo
from irontree.flows.serve.chores import is_due, put_up_for_approval, to_put_up, was_decided, was_told
from irontree.ports import Label
from irontree.store.memory import MemoryLock
from irontree.tasks.artifacts import read_told, write_told
from tests.support.world import make_scene


class AnotherWasFaster(MemoryLock):
    """The lock of who tells: before we got it another process told what we were about to."""

    def __init__(self, app: App) -> None:
        super().__init__(app.clock)
        self._app = app

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        with super().hold(what, wait_seconds=wait_seconds):
            write_told(self._app, {"labelled.1": int(self._app.clock.now().timestamp()), "issue.7": 3})
            yield


def test_a_labelled_issue_that_another_process_has_just_told_of_is_not_told_again(tmp_path: Path):
    scene = make_scene(tmp_path)
    (scene.root / ".mino").mkdir()
    scene.preferences = Preferences(automations=Automations(start_label="agent"))
    scene.forge_seen.ensure_labels([Label("agent", "ededed")])
    assert scene.forge_seen.create_issue("Another", "- [ ] it is there", ["agent"]).number == 1
    lock = AnotherWasFaster(scene.app)
    assert put_up_for_approval(replace(scene.app, alive=lambda _: lock)) == ()
    assert read_told(scene.app)["issue.7"] == 3


def test_an_issue_that_is_assigned_to_a_member_is_put_up_for_approval_once_also_if_it_is_labelled_too(tmp_path: Path):
    scene = make_scene(tmp_path)
    scene.preferences = Preferences(automations=Automations(start_label="agent"), type_labels=True)
    member = Member(name="coder", command=("coder",), account="coder-bot")
    scene.policy = scene.policy.model_copy(update={"team": (member,)})
    for labels, assignees in ((["agent"], ["coder-bot"]), ([], ["coder-bot"]), ([], ["ada"])):
        number = scene.forge_seen.create_issue("Another", "- [ ] it is there", labels).number
        scene.forge_seen.assign(number, assignees)
    found = to_put_up(scene.app)
    assert [(number, each.event, each.why) for number, each in sorted(found.items())] == [
        (1, "labelled", {"label": "agent"}),
        (2, "assigned", {"member": "coder"}),
    ]


def test_what_nobody_takes_up_is_told_again_after_twice_the_wait_each_time_and_once_a_day_in_the_end():
    """A paused automation would else be told of every labelled issue every ten minutes, for ever."""
    told: dict[str, int] = {}
    now, waits = 1_800_000_000, []
    for _ in range(11):
        assert is_due(told, 7, now)
        told |= was_told(told, [7], now)
        waits.append(next(wait for wait in range(0, 90_000, 600) if is_due(told, 7, now + wait)))
        now += waits[-1]
    assert waits[:8] == [600 << times for times in range(8)]
    assert waits[8:] == [86_400] * 3


def a_run(state: str) -> RunInfo:
    return RunInfo(UUID(int=1), "intake #7", state, state, "", {"document": "#7"}, None)


@pytest.mark.parametrize("states", [["COMPLETED"], ["CANCELLED"], ["FAILED", "COMPLETED"]])
def test_what_a_person_has_decided_is_told_never_again(states: list[str]):
    """Also after the server has dropped the run that tells of it."""
    told = was_decided({7: [a_run(state) for state in states]})
    assert not is_due(told, 7, 1_800_000_000)
    assert is_due(told, 8, 1_800_000_000)


@pytest.mark.parametrize("states", [["PAUSED"], ["SCHEDULED"], ["CRASHED"], ["FAILED"], ["PAUSED", "COMPLETED"]])
def test_what_is_still_asked_or_never_was_is_told_again_where_the_servers_database_is_lost(states: list[str]):
    assert was_decided({7: [a_run(state) for state in states]}) == {}
