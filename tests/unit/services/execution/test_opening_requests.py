"""A request is opened once, whatever happens meanwhile, and ready where no CI is to be waited for (R9, R15)."""

from __future__ import annotations

from typing import Any

import pytest

from irontree.domain.decide import Run, Verify
from irontree.errors import RemoteUnavailable
from irontree.ports import CommitCheck
from irontree.services.execution.steps import perform
from tests.support.forges import hand_in
from tests.support.requests import Refusing, look, merge, request, requesting_scene, work
from tests.support.world import GREETING, ONE_TASK, Patience, Scene


@pytest.fixture
def scene(tmp_path) -> Scene:
    return requesting_scene(tmp_path)


class GoesDown(Refusing):
    """A forge that is down once it has opened a request, whose answer is lost; then somebody merges it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.forge_seen, "create_pull_request")
        self._scene = scene

    def __getattr__(self, name: str) -> Any:
        is_first = name == self._method and not self._scene.tracker.pulls
        return self._open_and_go_down if is_first else getattr(self._forge, name)

    def _open_and_go_down(self, **given: Any) -> None:
        self._forge.create_pull_request(**given)
        merge(self._scene)
        self._scene.tracker.outage = "it is down"
        raise RemoteUnavailable("no answer")


class UpAgain(Patience):
    """The forge is back when the pause ends."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def wait(self, timeout: float | None = None) -> bool:
        self._scene.tracker.outage = None
        return super().wait(timeout)


def test_a_request_that_was_merged_while_its_answer_was_lost_is_the_only_one(scene: Scene):
    """R9: it is looked for before anything is sent again."""
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    scene.forge_seen, scene.cancel = GoesDown(scene), UpAgain(scene)
    perform(scene.app, Verify(GREETING))
    assert [*scene.tracker.pulls] == [scene.state().request]
    look(scene)
    assert scene.events()[-1] == "checkup_accept_recorded"


class Asking:
    """A forge that notes of which commits the checks are asked."""

    def __init__(self, forge: Any, commits: list[str]) -> None:
        self._forge, self._commits = forge, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)

    def commit_checks(self, sha: str) -> Any:
        self._commits.append(sha)
        return self._forge.commit_checks(sha)


@pytest.mark.parametrize("has_ci", [True, False])
def test_what_ci_says_of_the_commit_underneath_is_asked_once(scene: Scene, has_ci: bool):
    base, asked = scene.repository.remote["main"], []
    if has_ci:
        scene.tracker.check(base, CommitCheck("build", "success", ""))
    scene.forge_seen = Asking(scene.forge_seen, asked)
    work(scene)
    assert asked.count(base) == 1
    assert request(scene).draft is has_ci


def test_one_that_was_sent_back_is_ready_again_where_there_is_no_ci(scene: Scene):
    work(scene)
    hand_in(scene.tracker, request(scene).number, "grace", "changes_requested", "Say it twice.")
    look(scene)
    assert request(scene).draft
    work(scene)
    assert not request(scene).draft
