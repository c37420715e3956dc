"""The agent programs that are known here, by the name under which `agent.adapter` chooses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from irontree.agents.presets import aider, claude, codex, copilot, gemini, mini, opencode
from irontree.agents.presets.preset import Preset

__all__ = ["PRESETS", "Preset"]

PRESETS: Final[Mapping[str, Preset]] = {
    module.PRESET.name: module.PRESET for module in (claude, codex, gemini, opencode, copilot, aider, mini)
}
"""In the order of `KNOWN_AGENTS`."""
