"""An agent program that is known here: the adapter named after it."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.agents import as_called
from irontree.agents.presets import PRESETS
from irontree.agents.program import ProgramAgent, Way
from irontree.domain.plan import AgentSpec
from irontree.processes import Children


class KnownAgent(ProgramAgent):
    """The port `CodingAgent` for the preset that `spec.adapter` names."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Call it as it was approved, and read it as the preset says; *environment* is the caller's."""
        preset = PRESETS[spec.adapter]
        words = spec.called or as_called(spec).called
        super().__init__(spec, children, environment, Way(words, preset.read, preset.tell, preset.settings, preset.add))
