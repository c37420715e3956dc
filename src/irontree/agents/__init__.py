"""Programs that edit code: adapters of the port `CodingAgent`, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from irontree.domain.plan import KNOWN_AGENTS, AgentSpec
from irontree.errors import ConfigRefused
from irontree.ports import CodingAgent
from irontree.processes import Children

# Imported when asked for: a command that runs no agent does not pay for any.
_KNOWN = "irontree.agents.known:KnownAgent"
_ADAPTERS = {
    "acp": "irontree.agents.acp:AcpAgent",
    "command": "irontree.agents.command:CommandAgent",
    **dict.fromkeys(KNOWN_AGENTS, _KNOWN),
}


def open_agent(spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> CodingAgent:
    """The agent that *spec* describes; *environment* is the caller's. Raises ConfigRefused for an unknown adapter."""
    if spec.adapter not in _ADAPTERS:
        raise ConfigRefused(
            f"there is no agent adapter {spec.adapter!r}; known: {', '.join(sorted(_ADAPTERS))}",
            remedy="correct agent.adapter in .mino/config.yml",
        )
    module, _, name = _ADAPTERS[spec.adapter].partition(":")
    agent: CodingAgent = getattr(import_module(module), name)(spec, children, environment)
    return agent
