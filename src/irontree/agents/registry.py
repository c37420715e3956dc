"""Programs that edit code: adapters of the port `CodingAgent`, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TypeVar

from irontree.domain.agents import KNOWN_AGENTS, AgentSpec
from irontree.errors import ConfigRefused
from irontree.ports import CodingAgent
from irontree.processes.children import ChildProcesses

Spec = TypeVar("Spec", bound=AgentSpec)

# Imported when asked for: a command that runs no agent does not pay for any.
_KNOWN = "irontree.agents.program:KnownAgent"
_ADAPTERS = {
    "acp": "irontree.agents.acp:AcpAgent",
    "command": "irontree.agents.program:CommandAgent",
    **dict.fromkeys(KNOWN_AGENTS, _KNOWN),
}


def as_called(spec: Spec) -> Spec:
    """The same with the command line of a known agent, and what it needs of the home: that is approved (R6)."""
    if spec.adapter not in KNOWN_AGENTS:
        return spec
    from irontree.agents.presets import PRESETS  # noqa: PLC0415  (see above)

    preset, place = PRESETS[spec.adapter], spec.place
    words = preset.words(spec.command, spec.model, spec.arguments, confined=place.confined)
    if place.kind == "bubblewrap":
        read, write = ((f"~/{path}" for path in paths) for paths in (preset.reads, preset.writes))
        place = place.model_copy(update={"read": (*place.read, *read), "write": (*place.write, *write)})
    return spec.model_copy(update={"called": words, "place": place})


def open_agent(spec: AgentSpec, children: ChildProcesses, environment: Mapping[str, str]) -> CodingAgent:
    """The agent that *spec* describes; *environment* is the caller's. Raises ConfigRefused for an unknown adapter."""
    if spec.adapter not in _ADAPTERS:
        raise ConfigRefused(
            f"there is no agent adapter {spec.adapter!r}; known: {', '.join(sorted(_ADAPTERS))}",
            remedy="correct agent.adapter in .mino/config.yml",
        )
    module, _, name = _ADAPTERS[spec.adapter].partition(":")
    agent: CodingAgent = getattr(import_module(module), name)(spec, children, environment)
    return agent
