"""Work under `publish.mode: pull_request`: doing it, and what people do to its request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Run, Verify
from irontree.errors import RemoteUnavailable
from irontree.ports import PullRequest
from irontree.repository.memory import Commit
from irontree.services.execution.steps import catch_up, perform
from tests.support.forges import merge as merge_request
from tests.support.world import GREETING, ONE_TASK, Scene, does, make_scene

BRANCH = "feature/1-greeting"
AGENT = (does(greet_txt="hello"), does(greet_txt="hello, again"), does(greet_txt="hello, at last"))


def requesting_scene(folder: Path) -> Scene:
    """A scene whose verified work is proposed; grace has write access."""
    scene = make_scene(folder)
    scene.tracker.writers.add("grace")
    scene.agent = ScriptedAgent(*AGENT)
    publish = scene.policy.publish.model_copy(update={"mode": "pull_request"})
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    return scene


class Refusing:
    """A forge that does not answer to one of its methods."""

    def __init__(self, forge: Any, method: str, error: Exception | None = None) -> None:
        self._forge, self._method = forge, method
        self._error = error or RemoteUnavailable("it does not answer")

    def __getattr__(self, name: str) -> Any:
        def refuses(*_: Any, **__: Any) -> None:
            raise self._error

        return refuses if name == self._method else getattr(self._forge, name)


def work(scene: Scene, text: str = ONE_TASK) -> None:
    """One attempt, and its verification."""
    if not scene.world.states:
        scene.publish(text)
    perform(scene.app, Run(GREETING))
    perform(scene.app, Verify(GREETING))


def request(scene: Scene) -> PullRequest:
    """The newest one."""
    return scene.forge_seen.find_pull_requests(BRANCH)[-1]


def merge(scene: Scene, by: str = "grace", squash: bool = False) -> str:
    """Somebody merges the open request; the commit that is on the target then."""
    asked, tracker = request(scene), scene.tracker
    sha = asked.head_sha
    if squash:
        files = scene.repository.commits[sha].files
        sha = scene.repository.add(Commit(files, (scene.repository.remote["main"],), "Greeting (#2)"))
    scene.repository.remote["main"] = sha
    merge_request(tracker, asked.number, by)
    tracker.pulls[asked.number] = tracker.pulls[asked.number]._replace(head_sha=asked.head_sha, merge_sha=sha)
    tracker.issues[scene.number()] = tracker.issues[scene.number()]._replace(state="closed")  # `Closes #1`
    return sha


def look(scene: Scene) -> None:
    with scene.app.driver.hold("look"):
        catch_up(scene.app)
