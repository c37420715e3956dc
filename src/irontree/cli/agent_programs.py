"""Coding agents on this machine: which of those that are known here are installed, and whether one can be started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.agents.presets import PRESETS, Preset
from irontree.domain.plan import AgentSpec
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.processes import capture, scrubbed_environment

VERSION_SECONDS: Final = 20
_VERSION: Final = re.compile(r"\d+\.\d+(?:[.+-]\w+)*")


@dataclass(frozen=True, slots=True)
class Program:
    """One known agent on this machine. *path* and *version* None: it is not there, or does not say."""

    preset: Preset
    path: str | None
    version: str | None
    access: bool | None
    """Whether it has a key or a log-in, as far as can be told without calling anybody; None if it cannot."""


def look_for_all(environment: Mapping[str, str]) -> tuple[Program, ...]:
    """Every agent that is known here, in the table's order; those that are there are asked for their version."""
    with ThreadPoolExecutor() as pool:  # each takes a second to start
        return tuple(pool.map(lambda preset: _look_for(preset, environment), PRESETS.values()))


def _look_for(preset: Preset, environment: Mapping[str, str]) -> Program:
    path = shutil.which(preset.program, path=environment.get("PATH", os.defpath))
    version = _version(path, {**scrubbed_environment(environment), **preset.settings}) if path else None
    return Program(preset, path, version, preset.signed_in_here(environment, preset.variables))


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    try:
        said = capture([path, "--version"], cwd=Path("/"), environment=environment, seconds=VERSION_SECONDS).stdout
    except EnvironmentRefused:
        return None
    found = _VERSION.search(said.decode("utf-8", "replace"))
    return found[0] if found else None


def installed(programs: Collection[str]) -> tuple[Preset, ...]:
    """Those of *programs* (names on PATH) that are known here, in the table's order."""
    return tuple(preset for preset in PRESETS.values() if preset.program in programs)


def require_agent(spec: AgentSpec) -> None:
    """Raise ConfigRefused where nobody would do the work: no command, or a program that is not on PATH.

    One that is named with a folder may be relative to the workspace, and one in a container is in its image, so only
    its first attempt can tell.
    """
    if spec.program is None:
        raise ConfigRefused(
            "agent.command is empty: nobody would do the work",
            remedy="name a program in .mino/config.yml, or install an agent and type `irontree init`",
        )
    if spec.container is None and "/" not in spec.program and shutil.which(spec.program) is None:
        raise ConfigRefused(
            f"{spec.program}, the program of the agent, is not on PATH",
            remedy="install it, or name another under agent.command in .mino/config.yml",
        )
