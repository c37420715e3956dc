"""What the exit code of an agent program tells where none of its lines does (docs/agents.md)."""

from __future__ import annotations

import os

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.agents import AgentSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children


@pytest.mark.parametrize(("code", "failure"), [(41, "not_authenticated"), (53, "limit_reached"), (1, None), (0, None)])
def test_an_exit_code_that_gemini_documents_is_believed(tmp_path, code, failure):
    """Gemini CLI may end with words alone, such as `Invalid auth method selected.`"""
    program = tmp_path / "gemini"
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho 'Invalid auth method selected.' >&2\nexit {code}\n")
    program.chmod(0o755)
    (tmp_path / "workspace").mkdir()
    agent = open_agent(AgentSpec(adapter="gemini", command=(str(program),)), children(), {**os.environ})
    task = AgentTask(7, "core-model", 1, "make it", tmp_path / "workspace", tmp_path / "transcript")
    assert agent.attempt(task, cancel=NEVER, progress=Heard()).failure == failure
