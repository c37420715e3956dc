"""Where programs run: on this machine, in bubblewrap, or in a container (R3, R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from irontree.domain.places import PlaceSpec, SandboxKind
from irontree.ports import Blocker
from irontree.processes import bubblewrap, containers
from irontree.processes.bubblewrap import Bubblewrap
from irontree.processes.containers import Engine
from irontree.processes.family import BUBBLEWRAP


@dataclass(frozen=True)
class Places:
    """The port `Places`; *environment* is the caller's, for the programs that make a place."""

    environment: Mapping[str, str] = field(repr=False)

    def best(self) -> SandboxKind:
        """The strongest kind that needs no configuration."""
        return "none" if self._bubblewrap.trouble else "bubblewrap"

    def unconfined(self) -> str:
        """Why `best` is `none`, in words; empty if it is not."""
        return self._bubblewrap.trouble

    def blockers(self, place: PlaceSpec) -> tuple[Blocker, ...]:
        """Why nothing can be run there now; another place is never taken instead."""
        if place.container:
            return self._engine.blockers(place.container)
        if place.kind == "bubblewrap" and self._bubblewrap.trouble:
            return (Blocker("sandbox-missing", self._bubblewrap.trouble, bubblewrap.REMEDY),)
        return ()

    def enter(
        self,
        place: PlaceSpec,
        argv: Sequence[str],
        *,
        mark: str,
        cwd: Path,
        environment: Mapping[str, str],
        folders: Sequence[Path],
        readable: Sequence[Path],
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """The words that run *argv* there in *cwd*, and their environment; *folders* are writable, *readable* not."""
        if place.container:
            return self._engine.command(
                place.container,
                argv,
                mark=mark,
                cwd=cwd,
                environment=environment,
                folders=folders,
                readable=readable,
                network=place.network,
            )
        if place.kind == "bubblewrap":
            return self._bubblewrap.command(
                place, argv, cwd=cwd, environment=environment, folders=folders, readable=readable
            )
        return argv, environment

    def remove(self, engine: str, mark: str) -> bool:
        """End what a killed program leaves in its container; False if there is nothing."""
        return engine not in ("", BUBBLEWRAP) and self._engine.remove(engine, mark)

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self.environment)

    @cached_property
    def _bubblewrap(self) -> Bubblewrap:
        return Bubblewrap(self.environment)


def engine_of(place: PlaceSpec) -> str:
    """What is recorded of a child there as its engine."""
    return place.container.engine if place.container else BUBBLEWRAP if place.kind == "bubblewrap" else ""


def never_ran(place: PlaceSpec, exit_code: int | None, output: str) -> bool:
    """Whether what made the place ended with this because the program was not started."""
    if place.container:
        return containers.never_ran(exit_code, output)
    return place.kind == "bubblewrap" and bubblewrap.never_ran(exit_code, output)
