"""Agents that bring a sandbox of their own: off where ours is on, and noticed where it refuses every edit."""

from __future__ import annotations

import os

import pytest

from irontree.agents.presets import PRESETS
from irontree.agents.registry import as_called, open_agent
from irontree.domain.agents import AgentSpec
from irontree.domain.places import OPEN, PlaceSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children

CONFINED = PlaceSpec(kind="bubblewrap", read=("/data",))


def test_codex_confines_itself_only_where_we_do_not():
    assert "workspace-write" in as_called(AgentSpec(adapter="codex")).called
    assert "danger-full-access" in as_called(AgentSpec(adapter="codex", place=CONFINED)).called


@pytest.mark.parametrize("name", PRESETS)
def test_what_a_known_agent_needs_of_the_home_is_approved_with_it(name):
    preset, place = PRESETS[name], as_called(AgentSpec(adapter=name, place=CONFINED)).place
    assert place.read == ("/data", *(f"~/{path}" for path in preset.reads))
    assert place.write == tuple(f"~/{path}" for path in preset.writes)
    assert set(preset.signed_in) <= {*preset.reads, *preset.writes}, "its log-in is there"
    assert as_called(AgentSpec(adapter=name)).place == OPEN


@pytest.mark.parametrize(
    ("says", "sandbox", "failure"),
    [
        ("", "echo refused by the kernel >&2; exit 1", "own_sandbox"),
        ("", "exit 0", None),
        ('{"item":{"type":"file_change"}}', "exit 1", None),
    ],
)
def test_a_sandbox_that_refuses_everything_is_told_from_nothing_to_do(tmp_path, says, sandbox, failure):
    program = tmp_path / "codex"
    record = '{"type":"turn.completed","usage":{}}'
    program.write_text(f"#!/bin/sh\n[ $1 != sandbox ] || {{ {sandbox}; }}\necho '{says}'; echo '{record}'\n")
    program.chmod(0o755)
    (tmp_path / "workspace").mkdir()
    spec = as_called(AgentSpec(adapter="codex", command=(str(program),)))
    task = AgentTask(7, "greeting", 1, "Write.", tmp_path / "workspace", tmp_path / "transcript")
    result = open_agent(spec, children(), dict(os.environ)).attempt(task, cancel=NEVER, progress=Heard())
    assert result.failure == failure
    if failure:
        assert result.claim
        assert result.claim.words == "refused by the kernel"
