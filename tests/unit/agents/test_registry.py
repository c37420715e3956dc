"""Coding agents are found by name."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from irontree.agents import registry
from irontree.agents.program import CommandAgent
from irontree.agents.registry import as_called, open_agent
from irontree.domain.agents import KNOWN_AGENTS, AgentSpec
from irontree.domain.settings import AGENT_ADAPTERS
from irontree.errors import ConfigRefused
from tests.support.processes import children


def test_the_command_adapter_is_the_default():
    assert isinstance(open_agent(AgentSpec(command=("agent",)), children(), {}), CommandAgent)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigRefused, match=r"'comand'; known: .*command") as refused:
        open_agent(AgentSpec(adapter="comand", command=("agent",)), children(), {})
    assert "agent.adapter" in refused.value.remedy


def test_a_command_without_words_is_refused():
    with pytest.raises(ConfigRefused, match="empty") as refused:
        open_agent(AgentSpec(), children(), {})
    assert "agent.command" in refused.value.remedy


def test_no_adapter_is_imported_before_it_is_asked_for():
    script = "import sys, irontree.agents.registry; sys.exit('irontree.agents.program' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_replaying_agent_is_started_without_what_plans_and_logs_need():
    """It is started for each attempt, and reads neither."""
    script = "import sys, irontree.cli.context, irontree.cli.agents; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("name", KNOWN_AGENTS)
def test_what_is_approved_of_a_known_agent_is_its_whole_command_line(name):
    """R6: a later version that calls it in another way asks for approval again."""
    spec = as_called(AgentSpec(adapter=name, model="big-one", arguments=("--more",)))
    assert {KNOWN_AGENTS[name], "big-one", "--more"} <= set(spec.called)
    assert spec.line == shlex.join(spec.called)


def test_any_other_agent_is_called_as_the_configuration_says():
    spec = AgentSpec(command=("my-agent", "--go now"))
    assert as_called(spec) == spec
    assert spec.line == "my-agent '--go now'"


def test_the_settings_may_name_every_adapter_that_is_here_and_no_other():
    assert sorted(registry._ADAPTERS) == sorted(AGENT_ADAPTERS)
