"""Programs in containers: started by the engine's own program, and ended through it (R3, R6)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from irontree.domain.plan import ContainerSpec
from irontree.errors import EnvironmentRefused
from irontree.ports import Blocker
from irontree.processes.container_command import (
    HERE_ALONE,
    User,
    command_in_container,
    container_name,
    question_for,
    removal,
)
from irontree.processes.family import MARK
from irontree.processes.running import Captured, capture

_ENGINE_SECONDS: Final = 60.0
_SETTINGS: Final = ("DOCKER_", "CONTAINER_", "CONTAINERS_")
"""Prefixes of the variables that say where the engine is, and how it is reached."""
_SANCTUARY: Final = Path("/")
"""An engine's program is not started in a folder that an agent may have changed."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The port `ContainerEngine`; *environment* is the caller's, of which the engine's program gets what it needs."""

    environment: Mapping[str, str] = field(repr=False)

    def command(
        self,
        container: ContainerSpec,
        argv: Sequence[str],
        *,
        mark: str,
        cwd: Path,
        environment: Mapping[str, str],
        folders: Sequence[Path],
        readable: Sequence[Path] = (),
    ) -> tuple[list[str], dict[str, str]]:
        """The words that run *argv* in the container, and the environment of the engine's program itself."""
        words = command_in_container(
            container,
            argv,
            mark=mark,
            cwd=cwd,
            variables=(*environment, MARK),
            folders=folders,
            readable=readable,
            user=User(os.getuid(), os.getgid()),
        )
        return words, {**environment, **self._own()}

    def remove(self, engine: str, mark: str) -> bool:
        """Kill and remove the container of that child; False if there is none.

        Raises EnvironmentRefused if that cannot be said: a program may still be at work in it.
        """
        done = self._ask(removal(engine, mark))
        said = done.stderr.decode("utf-8", "replace").strip()
        if "no such container" in said.lower():
            return False
        if done.exit_code != 0:
            raise EnvironmentRefused(
                f"the container {container_name(mark)} of a program that is to end cannot be removed: {said}",
                remedy=f"see that {engine} works, or remove it: {engine} rm --force {container_name(mark)}",
            )
        return bool(done.stdout.strip())

    def blockers(self, container: ContainerSpec) -> tuple[Blocker, ...]:
        """Why nothing can be run in it now; nothing is pulled."""
        if shutil.which(container.engine, path=self.environment.get("PATH", os.defpath)) is None:
            remedy = f"install {container.engine}, or take `container` out of .mino/config.yml"
            return (Blocker("container-engine", f"{container.engine} is not on PATH", remedy),)
        done = self._ask(question_for(container))
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if done.exit_code == 0:
            return ()
        if "no such image" in said.lower() or "image not known" in said.lower():
            missing = f"the image {container.image} is not on this machine"
            return (Blocker("container-image", missing, _way_to(container)),)
        remedy = f"start it, or see what it says: {container.engine} info"
        return (Blocker("container-engine", f"{container.engine} does not work here: {said}", remedy),)

    def _ask(self, words: Sequence[str]) -> Captured:
        return capture(words, cwd=_SANCTUARY, environment=self._own(), seconds=_ENGINE_SECONDS)

    def _own(self) -> dict[str, str]:
        return {
            name: value for name, value in self.environment.items() if name in HERE_ALONE or name.startswith(_SETTINGS)
        }


def _way_to(container: ContainerSpec) -> str:
    if "@" in container.image:
        return f"{container.engine} pull {container.image}"
    return f"build or load it again: it had that id when it was approved ({container.engine} image ls --no-trunc)"
