"""A scene whose issues are on the double of a server: the whole job over HTTP, one process after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from irontree.agents.scripted import ScriptedAgent
from irontree.app import App
from irontree.domain.decide import Halt
from irontree.forges.gitea import GiteaForge
from irontree.forges.github import GithubForge
from irontree.ports import AgentTask, Forge
from irontree.repository.memory import MemoryRepository
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.delivery.deliver import tell_halts_if_free
from irontree.services.execution.steps import catch_up, perform
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.loops.loop import Loop
from tests.support.gitea.server import gitea_server
from tests.support.gitea.stage import MovingClock
from tests.support.gitea.stage import settings as gitea_settings
from tests.support.github.server import GithubServer, serve
from tests.support.github.stage import github_settings
from tests.support.github.state import Hub
from tests.support.world import Scene, make_scene


class Remote(Protocol):
    """A server on loopback with one repository, `ada` having write access to it beside us."""

    server: Any
    clock: MovingClock
    """By which our processes know for how long they have known something."""

    def connect(self) -> Forge:
        """Ours, as a process that has just started has it."""
        ...

    def share(self, repository: MemoryRepository) -> None:
        """Have the branches and commits of *repository*'s remote."""
        ...

    def write_issue(self, title: str, body: str) -> int:
        """As `ada`."""
        ...

    def merge(self, number: int, sha: str) -> None:
        """Merge a request as `ada`; *sha* is what the target has then."""
        ...


class OnGitea:
    def __init__(self, server: Any) -> None:
        self.server = server
        self.clock = MovingClock()
        self._contents = server.contents
        self._token = self._contents.account("irontree", "admin")
        self._contents.account("ada", "write")

    def connect(self) -> Forge:
        return GiteaForge(replace(gitea_settings(self.server, self._token), clock=self.clock))

    def share(self, repository: MemoryRepository) -> None:
        self._contents.branches = repository.remote

    def write_issue(self, title: str, body: str) -> int:
        return self._contents.new_issue("ada", title, body).number

    def merge(self, number: int, sha: str) -> None:
        self._contents.merge(number, "ada", sha)


class OnGithub:
    def __init__(self, folder: Path, server: GithubServer) -> None:
        self.server = server
        self.clock = MovingClock()
        self._folder = folder
        self._hub = server.hub
        self._hub.rights["ada"] = "write"

    def connect(self) -> Forge:
        return GithubForge(replace(github_settings(self._folder, self.server, "irontree"), clock=self.clock))

    def share(self, repository: MemoryRepository) -> None:
        self._hub.branches, self._hub.commits = repository.remote, repository.commits.keys()

    def write_issue(self, title: str, body: str) -> int:
        number = len(self._hub.issues) + 1
        about = {"number": number, "title": title, "body": body, "author": "ada", "labels": set()}
        self._hub.issues[number] = {**about, "state": "open", "updated_at": self._hub.now}
        return number

    def merge(self, number: int, sha: str) -> None:
        self._hub.merge(number, "ada", sha)


@contextmanager
def on_gitea(_: Path, clock: Callable[[], Any]) -> Iterator[OnGitea]:
    with gitea_server(clock) as server:
        yield OnGitea(server)


@contextmanager
def on_github(folder: Path, _: Callable[[], Any]) -> Iterator[OnGithub]:
    with serve(Hub()) as server:
        yield OnGithub(folder, server)


KINDS: dict[str, Callable[[Path, Callable[[], Any]], AbstractContextManager[Remote]]] = {
    "gitea": on_gitea,
    "github": on_github,
}


FOUR = """\
# Toy

## One

- [ ] it is there `$ has one.txt`

## Two

Depends on: One

- [ ] it is there `$ has two.txt`

## Three

Depends on: Two

- [ ] it is there `$ has three.txt`

## Four

Depends on: Three

- [ ] it is there `$ has four.txt`
- [ ] it is pretty (manual)
"""


def writes_its_file(task: AgentTask) -> None:
    (task.workspace / f"{task.task_key}.txt").write_text(f"hello, attempt {task.attempt}\n")


@dataclass
class RemoteScene:
    """A scene before a server. What one process learns of the forge the next one does not know."""

    scene: Scene
    remote: Remote

    def another_process(self) -> App:
        self.scene.forge_seen = self.remote.connect()  # type: ignore[assignment]
        return self.scene.app

    def start(self, text: str = FOUR) -> Loop:
        """Approve, publish and start a loop: the terminal's part."""
        self.another_process()
        return self.scene.start(text)

    def drive(self, loop: Loop) -> Halt:
        """Until the goal, or until somebody is asked; each step is a process of its own, and so is the loop."""
        app = self.another_process()
        with app.driver.hold("catch up"):
            catch_up(app)
        while not isinstance(found := next_decision(app, loop.id), Halt):
            loops.resume(app, loop.id)
            self.another_process()
            perform(app, found, loop.id)
        if found.reason == "goal_reached":
            loops.complete(app, loop.id)
        else:
            loops.halt(app, loop.id, found)
            self.another_process()
            tell_halts_if_free(app, "halted", wait_seconds=0)
        return found

    def answer(self, loop: Loop, number: int, answer: Answer) -> None:
        """As a form or a command does it."""
        app = self.another_process()
        with app.driver.hold("answer"):
            answer_issue(app, number, answer, loop.id)

    def merge(self, key: str) -> None:
        """A person merges the request of a task."""
        state = self.scene.state(key)
        assert state.request
        assert state.anchor
        self.scene.repository.remote["main"] = state.anchor
        self.remote.merge(state.request, state.anchor)


@contextmanager
def remote_scene(kind: str, folder: Path, *, mode: str = "direct", keeps_current: bool = True) -> Iterator[RemoteScene]:
    scene = make_scene(folder)
    scene.preferences = replace(scene.preferences, keeps_current=keeps_current)
    publish = scene.policy.publish.model_copy(update={"mode": mode})
    scene.policy = scene.policy.model_copy(update={"publish": publish})
    scene.agent = ScriptedAgent(writes_its_file)
    with KINDS[kind](folder, scene.clock.now) as remote:
        remote.share(scene.repository)
        yield RemoteScene(scene, remote)
