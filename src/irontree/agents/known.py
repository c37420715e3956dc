"""An agent program that is known here: the adapter named after it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from irontree.agents import as_called
from irontree.agents.presets import PRESETS
from irontree.agents.presets.preset import Preset
from irontree.agents.program import ProgramAgent, Way
from irontree.domain.plan import AgentSpec
from irontree.errors import EnvironmentRefused
from irontree.processes import Children, capture, scrubbed_environment

STATUS_SECONDS: Final = 20


class KnownAgent(ProgramAgent):
    """The port `CodingAgent` for the preset that `spec.adapter` names."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Call it as it was approved, and read it as the preset says; *environment* is the caller's."""
        preset = PRESETS[spec.adapter]
        words = spec.called or as_called(spec).called
        super().__init__(spec, children, environment, _way(preset, words))
        self._known = spec
        self._preset = preset
        self._caller = environment

    def no_access(self) -> str | None:
        """Ask the program, if there is neither a key nor a log-in to be seen: some keep theirs out of sight.

        What this machine knows says nothing of a container.
        """
        spec, preset, caller = self._known, self._preset, self._caller
        status, home = preset.status, Path(caller.get("HOME", "~")).expanduser()
        if status is None or spec.container:
            return None
        if preset.signed_in_here(caller, spec.environment) or status.elsewhere(home, spec.arguments):
            return None
        program = self._found()
        if program is None:
            return None
        environment = {**scrubbed_environment(caller, spec.environment), **preset.settings}
        try:
            said = capture([program, *status.words], cwd=Path("/"), environment=environment, seconds=STATUS_SECONDS)
        except EnvironmentRefused:  # it does not answer: the attempt will tell
            return None
        denied = status.denies((said.stdout + said.stderr).decode("utf-8", "replace"))
        return f"`{shlex.join((preset.program, *status.words))}` says that nobody is logged in" if denied else None

    def _found(self) -> str | None:
        """The program, where it is one word: more of them may record a session, or replay one."""
        words = self._known.command or (self._preset.program,)
        return shutil.which(words[0], path=self._caller.get("PATH", os.defpath)) if len(words) == 1 else None


def _way(preset: Preset, words: tuple[str, ...]) -> Way:
    return Way(words, preset.read, preset.tell, preset.settings, preset.add, preset.exits)
