"""What the world may do to one command: the agent, the checks, the remote, the forge, and death at any effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from hypothesis import strategies as st

from irontree.agents.scripted import ScriptedAgent
from irontree.app import App
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.errors import IrontreeError, PublicationRefused, RemoteUnavailable
from irontree.ports import AgentResult, AgentTask
from tests.support.memory_project import push_from_elsewhere
from tests.support.watching import Killed, Side, Watched, watched_app
from tests.support.world import Scene

Mood = Literal["works", "repeats", "idles", "fails", "breaks off", "no start", "time", "stopped", "dies"]
Remote = Literal["well", "hiccup", "away", "refuses", "moves", "keeps moving", "conflicts"]
Verdict = Literal["true", "red", "time"]


@dataclass(frozen=True, repr=False)
class Fate:
    """What befalls one command. `kill` is the number of the effect (from 1) at which its process dies, and the side."""

    agent: Mood = "works"
    checks: Verdict = "true"
    remote: Remote = "well"
    commit_refused: bool = False
    forge_away: bool = False
    stop: bool = False
    kill: tuple[int, Side] | None = None

    def __repr__(self) -> str:
        """What goes wrong alone."""
        said = (
            f"{field.name}={value!r}" for field in fields(self) if (value := getattr(self, field.name)) != field.default
        )
        return f"Fate({', '.join(said)})"

    @property
    def is_kind(self) -> bool:
        return self == Fate()


KIND = Fate()
"""Nothing goes wrong."""


def _mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(usual), st.just(usual), st.just(usual), st.sampled_from(others))


def fates() -> st.SearchStrategy[Fate]:
    """Half of all commands meet no trouble; shrinks towards none."""
    some = st.builds(
        Fate,
        agent=_mostly("works", "repeats", "idles", "fails", "breaks off", "no start", "time", "stopped", "dies"),
        checks=_mostly("true", "red", "red", "time"),
        remote=_mostly("well", "hiccup", "away", "refuses", "moves", "keeps moving", "conflicts"),
        commit_refused=_mostly(False, True),
        forge_away=_mostly(False, True),
        stop=_mostly(False, False, True),
        kill=st.none() | st.tuples(st.integers(1, 30), st.sampled_from(["before", "after"])),
    )
    return st.just(KIND) | some


class Chances:
    """Makes the doubles of a scene behave as the fate of the present command says."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.fate = KIND
        self.runs: list[str] = []
        """Task keys that the agent was asked for, in order."""
        self._mortal: _Mortal | None = None
        self._pushed = 0
        scene.agent = ScriptedAgent(self._agent)
        scene.checks = ScriptedCheckRunner(self._judge)
        scene.repository.hook = lambda _: "the hook says no" if self.fate.commit_refused else None
        scene.repository.before_push = self._before_push

    @contextmanager
    def under(self, fate: Fate) -> Iterator[App]:
        """A fresh App that meets *fate*; afterwards the world is as it was."""
        scene, self.fate, self._mortal = self.scene, fate, _Mortal(fate.kill)
        scene.cancel.stopped = fate.stop
        scene.tracker.outage = "the forge is away" if fate.forge_away else None
        scene.repository.failures[:] = self._failures()
        self._pushed = 0
        try:
            yield watched_app(scene.app, self._watch)
        finally:
            self.fate = KIND
            scene.cancel.stopped, scene.tracker.outage = False, None
            scene.repository.failures.clear()

    def _watch(self, _: str, port: Any, methods: Collection[str]) -> Watched:
        assert self._mortal
        return Watched(port, methods, self._mortal.tell)

    def _failures(self) -> list[IrontreeError]:
        away: list[IrontreeError] = [RemoteUnavailable("nobody listens")]
        refusal: list[IrontreeError] = [PublicationRefused("the branch is protected", reason="protected-branch")]
        return {"hiccup": away, "away": away * 99, "refuses": refusal * 99}.get(self.fate.remote, [])

    def _agent(self, task: AgentTask) -> AgentResult | None:
        self.runs.append(task.task_key)
        mood, made = self.fate.agent, task.workspace / f"{task.task_key}.txt"
        if mood not in ("idles", "no start"):
            made.write_text("again\n" if mood == "repeats" else f"made in turn {len(self.runs)}\n")
            self._make_sound(task.workspace)
        match mood:
            case "dies":
                self._die()
            case "stopped":
                self.scene.cancel.stopped = True
                return AgentResult("cancelled", None, 1.0, "")
            case "no start":
                return AgentResult("not_started", None, 0.0, "there is no such program")
            case "time":
                return AgentResult("timeout", None, 1.0, "")
            case "breaks off" | "fails":
                if mood == "fails":
                    made.unlink()
                return AgentResult("exited", 1, 1.0, "it went wrong")
        return None

    def _make_sound(self, workspace: Path) -> None:
        (workspace / "rival").unlink(missing_ok=True)
        if (workspace / "broken").is_file():
            (workspace / "broken").write_text("no")

    def _die(self) -> None:
        assert self._mortal
        self._mortal.dead = True
        raise Killed

    def _judge(self, command: str, workspace: Path) -> int | None:
        """`made KEY` asks for its file; `sound` fails where somebody broke the target, or rivals with a task."""
        if self.fate.checks != "true":
            return 1 if self.fate.checks == "red" else None
        name, *key = command.split()
        if name == "made":
            return 0 if (workspace / f"{key[0]}.txt").is_file() else 1
        return int(
            _content(workspace / "broken") == "yes" or (workspace / f"{_content(workspace / 'rival')}.txt").is_file()
        )

    def _before_push(self, _: str) -> None:
        """Somebody else is a moment faster."""
        repository, fate = self.scene.repository, self.fate
        if fate.remote == "keeps moving" or (fate.remote in ("moves", "conflicts") and not self._pushed):
            self._pushed += 1
            name = f"{self.runs[-1]}.txt" if fate.remote == "conflicts" and self.runs else "elsewhere.txt"
            push_from_elsewhere(repository, {name: f"theirs, {len(repository.commits)}\n".encode()})


class _Mortal:
    """Counts the effects of one process; at the one it was told it dies, and has none any more."""

    def __init__(self, kill: tuple[int, Side] | None) -> None:
        self.dead = False
        self._kill = kill
        self._effects = 0

    def tell(self, _: str, side: Side) -> None:
        self._effects += side == "before" and not self.dead
        if self.dead or (self._effects, side) == self._kill:
            self.dead = True
            raise Killed


def _content(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
