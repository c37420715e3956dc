"""Coding agents on this machine: which of those that are known here are installed, and whether one can be started."""

from __future__ import annotations

import shutil
from collections.abc import Collection

from irontree.agents.presets import PRESETS, Preset
from irontree.domain.plan import AgentSpec
from irontree.errors import ConfigRefused


def installed(programs: Collection[str]) -> tuple[Preset, ...]:
    """Those of *programs* (names on PATH) that are known here, in the table's order."""
    return tuple(preset for preset in PRESETS.values() if preset.program in programs)


def require_agent(spec: AgentSpec) -> None:
    """Raise ConfigRefused where nobody would do the work: no command, or a program that is not on PATH.

    One that is named with a folder may be relative to the workspace, so only its first attempt can tell.
    """
    if spec.program is None:
        raise ConfigRefused(
            "agent.command is empty: nobody would do the work",
            remedy="name a program in .mino/config.yml, or install an agent and type `irontree init`",
        )
    if "/" not in spec.program and shutil.which(spec.program) is None:
        raise ConfigRefused(
            f"{spec.program}, the program of the agent, is not on PATH",
            remedy="install it, or name another under agent.command in .mino/config.yml",
        )
