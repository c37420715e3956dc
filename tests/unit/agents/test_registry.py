"""Coding agents are found by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from irontree import agents
from irontree.agents import open_agent
from irontree.agents.command import CommandAgent
from irontree.domain.plan import AgentSpec
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
    script = "import sys, irontree.agents; sys.exit('irontree.agents.command' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_settings_may_name_every_adapter_that_is_here_and_no_other():
    assert sorted(agents._ADAPTERS) == sorted(AGENT_ADAPTERS)
