"""The port `CodingAgent`: what every adapter keeps, the shipped double included."""

from __future__ import annotations

import sys
import threading

import pytest

from irontree.agents import open_agent
from irontree.agents.scripted import ScriptedAgent, idles, writes
from irontree.domain.plan import AgentSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children

WRITE = "from pathlib import Path; Path('made.txt').write_text('made'); print('made it')"


class CommandKit:
    """The adapter `command`, with programs that do what the suite needs."""

    def _agent(self, script: str, environment):
        return open_agent(AgentSpec(command=(sys.executable, "-c", script)), children(), environment)

    def writing(self, environment):
        return self._agent(WRITE, environment)

    def idle(self, environment):
        return self._agent("", environment)


class ScriptedKit:
    """The shipped double."""

    def writing(self, environment):
        return ScriptedAgent(writes("made.txt", "made"))

    def idle(self, environment):
        return ScriptedAgent(idles)


@pytest.fixture(params=[CommandKit, ScriptedKit], ids=["command", "scripted"])
def kit(request):
    return request.param()


@pytest.fixture
def task(tmp_path) -> AgentTask:
    (tmp_path / "workspace").mkdir()
    return AgentTask(
        issue_number=7,
        task_key="core-model",
        attempt=2,
        prompt="make it",
        workspace=tmp_path / "workspace",
        transcript=tmp_path / "transcript",
    )


def test_it_changes_the_workspace_and_nothing_else(kit, task, tmp_path):
    result = kit.writing({}).attempt(task, cancel=NEVER, progress=Heard())
    assert (task.workspace / "made.txt").read_text() == "made"
    assert (result.ended, result.exit_code) == ("exited", 0)
    assert {path.name for path in tmp_path.iterdir()} <= {"workspace", "transcript"}


def test_an_attempt_that_changes_nothing_is_no_error(kit, task):
    result = kit.idle({}).attempt(task, cancel=NEVER, progress=Heard())
    assert (result.ended, result.exit_code) == ("exited", 0)
    assert list(task.workspace.iterdir()) == []


def test_somebody_who_watches_hears_something(kit, task):
    heard = Heard()
    kit.writing({}).attempt(task, cancel=NEVER, progress=heard)
    assert heard.lines


def test_asked_to_stop_before_it_began_it_does_no_work(kit, task):
    stop = threading.Event()
    stop.set()
    result = kit.writing({}).attempt(task, cancel=stop, progress=Heard())
    assert result.ended == "cancelled"
    assert not (task.workspace / "made.txt").exists()


def test_each_attempt_is_a_new_one(kit, task):
    agent = kit.writing({})
    for _ in range(2):
        (task.workspace / "made.txt").unlink(missing_ok=True)
        agent.attempt(task, cancel=NEVER, progress=Heard())
        assert (task.workspace / "made.txt").exists()
