"""A known program that says what it takes while it works is stopped when that is what it may take."""

from __future__ import annotations

import json
import os

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.agents import AgentSpec
from irontree.domain.budgets import Allowance
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children

STEP = {"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.3, "tokens": {"input": 100, "output": 10}}}


def task(tmp_path, allowance: Allowance) -> AgentTask:
    (tmp_path / "workspace").mkdir()
    return AgentTask(
        7, "core-model", 1, "make it", tmp_path / "workspace", tmp_path / "transcript", allowance=allowance
    )


def attempt(tmp_path, allowance: Allowance, rest: str):
    """A stand-in for OpenCode that takes two steps, and then does the *rest*."""
    line = json.dumps(STEP)
    program = tmp_path / "opencode"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho made > made.txt\necho '{line}'\necho '{line}'\n{rest}\n")
    program.chmod(0o755)
    agent = open_agent(
        AgentSpec(adapter="opencode", command=(str(program),), wall_seconds=60), children(), {**os.environ}
    )
    return agent.attempt(task(tmp_path, allowance), cancel=NEVER, progress=Heard())


@pytest.mark.parametrize("allowance", [Allowance(money=500_000), Allowance(tokens=200)])
def test_it_is_stopped_at_the_limit_and_its_work_is_there(tmp_path, allowance):
    result = attempt(tmp_path, allowance, "exec sleep 60")
    assert (result.ended, result.usage.cost_usd, result.usage.input_tokens) == ("over_budget", 0.6, 200)
    assert (tmp_path / "workspace" / "made.txt").is_file()


def test_within_its_limit_it_is_left_alone(tmp_path):
    assert attempt(tmp_path, Allowance(money=700_000, tokens=1000), "exit 0").ended == "exited"
