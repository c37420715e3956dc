"""The double of a coding agent does what a test says, attempt by attempt."""

from __future__ import annotations

import dataclasses

import pytest

from irontree.agents.recordings import find_patch
from irontree.agents.scripted import ScriptedAgent, idles, writes
from irontree.ports import AgentResult, AgentTask
from tests.support.processes import NEVER, Heard


@pytest.fixture
def task(tmp_path) -> AgentTask:
    return AgentTask(7, "core-model", 1, "prompt", tmp_path, tmp_path / "transcript")


def attempt(agent, task):
    return agent.attempt(task, cancel=NEVER, progress=Heard())


def test_steps_are_taken_in_order_and_the_last_one_again(task, tmp_path):
    agent = ScriptedAgent(writes("a/one.txt", "1"), writes("two.txt", "2"))
    for number in (1, 2, 3):
        attempt(agent, dataclasses.replace(task, attempt=number))
    assert (tmp_path / "a" / "one.txt").read_text() == "1"
    assert (tmp_path / "two.txt").read_text() == "2"
    assert [asked.attempt for asked in agent.tasks] == [1, 2, 3]


def test_a_step_may_say_how_it_ended(task):
    crashed = AgentResult("exited", 1, 2.0, "boom")
    assert attempt(ScriptedAgent(lambda _: crashed), task) == crashed
    assert attempt(ScriptedAgent(idles), task) == AgentResult("exited", 0, 0.0, "")


@pytest.mark.parametrize(
    ("prepared", "asked", "found"),
    [
        (["1", "2"], 1, "1.patch"),
        (["1", "2"], 2, "2.patch"),
        (["1", "2"], 5, "2.patch"),
        (["2", "10"], 9, "2.patch"),
        (["2", "10"], 11, "10.patch"),
        (["2"], 1, None),
        ([], 1, None),
        (["notes"], 1, None),
    ],
)
def test_the_patch_of_an_attempt_is_its_own_or_the_last_one_before(tmp_path, prepared, asked, found):
    (tmp_path / "core-model").mkdir()
    for name in prepared:
        (tmp_path / "core-model" / f"{name}.patch").touch()
    patch = find_patch(tmp_path, "core-model", asked)
    assert (patch.name if patch else None) == found
