"""What automations are told besides the log: once, though several processes look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from irontree.app import App, Preferences
from irontree.domain.automation_settings import Automations
from irontree.flows.lifecycle.noticing import tell_labelled
from irontree.ports import Label
from irontree.store.memory import MemoryLock
from irontree.tasks.mirror import read_told, write_told
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
    assert tell_labelled(replace(scene.app, alive=lambda _: lock)) == ()
    assert read_told(scene.app)["issue.7"] == 3
