"""The port `CodingAgent`: what every adapter keeps, the shipped double included."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from irontree.agents.registry import open_agent
from irontree.agents.scripted import ScriptedAgent, idles, writes
from irontree.domain.agents import AgentSpec
from irontree.ports import AgentResult, AgentTask
from tests.support.processes import NEVER, Heard, children

ACP_AGENT = Path(__file__).parents[1] / "support" / "acp_agent.py"
WRITE = "from pathlib import Path; Path('made.txt').write_text('made'); print('made it', flush=True)"


class CommandKit:
    """The adapter `command`, with programs that do what the suite needs."""

    def _agent(self, script: str, environment, **limits: int):
        return open_agent(AgentSpec(command=(sys.executable, "-c", script), **limits), children(), environment)

    def failing(self, environment):
        return self._agent(f"{WRITE}; raise SystemExit(3)", environment)

    def endless(self, environment):
        return self._agent(f"{WRITE}; import time; time.sleep(60)", environment, wall_seconds=2)

    def silent(self, environment):
        return self._agent(f"{WRITE}; import time; time.sleep(60)", environment, stall_seconds=2)

    def missing(self, environment):
        return open_agent(AgentSpec(command=("there-is-no-such-agent",)), children(), environment)

    def writing(self, environment):
        return self._agent(WRITE, environment)

    def idle(self, environment):
        return self._agent("", environment)


class AcpKit:
    """The adapter `acp`, with an agent that speaks the protocol."""

    def _agent(self, environment, *ways: str, **limits: int):
        command = (sys.executable, str(ACP_AGENT), *ways)
        return open_agent(AgentSpec(adapter="acp", command=command, **limits), children(), environment)

    def writing(self, environment):
        return self._agent(environment, "writes=made.txt=made", "says=made it")

    def idle(self, environment):
        return self._agent(environment)

    def failing(self, environment):
        return self._agent(environment, "writes=made.txt=made", "says=made it\n", "dies=3")

    def endless(self, environment):
        return self._agent(environment, "writes=made.txt=made", "says=made it\n", "hangs", wall_seconds=4)

    def silent(self, environment):
        return self._agent(environment, "writes=made.txt=made", "says=made it\n", "hangs", stall_seconds=4)

    def missing(self, environment):
        return open_agent(AgentSpec(adapter="acp", command=("there-is-no-such-agent",)), children(), environment)


class ScriptedKit:
    """The shipped double."""

    def writing(self, environment):
        return ScriptedAgent(writes("made.txt", "made"))

    def idle(self, environment):
        return ScriptedAgent(idles)

    def failing(self, environment):
        return self._ending("exited", 3)

    def endless(self, environment):
        return self._ending("timeout")

    def silent(self, environment):
        return self._ending("stalled")

    def missing(self, environment):
        return ScriptedAgent(lambda _: AgentResult("not_started", None, 0.0, "no such agent"))

    def _ending(self, ended, exit_code=None):
        def step(task):
            writes("made.txt", "made")(task)
            return AgentResult(ended, exit_code, 1.0, "made it")

        return ScriptedAgent(step)


@pytest.fixture(params=[AcpKit, CommandKit, ScriptedKit], ids=["acp", "command", "scripted"])
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


@pytest.mark.parametrize(("way", "ended"), [("failing", "exited"), ("endless", "timeout"), ("silent", "stalled")])
def test_however_it_ends_badly_it_says_how_and_what_it_made_is_there(kit, task, way, ended):
    result = getattr(kit, way)({}).attempt(task, cancel=NEVER, progress=Heard())
    assert (result.ended, result.exit_code == 3, result.exit_code != 0) == (ended, way == "failing", True)
    assert "made it" in result.output_tail
    assert (task.workspace / "made.txt").read_text() == "made"


def test_an_agent_that_cannot_be_started_is_a_result_and_no_error(kit, task):
    result = kit.missing({}).attempt(task, cancel=NEVER, progress=Heard())
    assert (result.ended, result.exit_code) == ("not_started", None)
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


def test_an_agent_whose_access_cannot_be_told_is_not_turned_away(kit):
    assert kit.writing({}).no_access() is None
