"""An agent program that is known here: the adapter named after it."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.agents.presets import PRESETS
from irontree.agents.program import ProgramAgent, Way
from irontree.domain.plan import AgentSpec
from irontree.processes import Children


class KnownAgent(ProgramAgent):
    """The port `CodingAgent` for the preset that `spec.adapter` names."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Call it as the preset says; `spec.command` replaces the program, *environment* is the caller's."""
        preset = PRESETS[spec.adapter]
        words = preset.words(spec.command, spec.model, spec.arguments)
        super().__init__(spec, children, environment, Way(words, preset.read, preset.tell, preset.settings))
