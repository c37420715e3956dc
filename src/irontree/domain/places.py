"""Where programs run, as a person approved it (R6): on this machine, in bubblewrap, or in a container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, model_validator

from irontree.domain.values import Value


class ContainerSpec(Value):
    """In what programs run instead of on the machine itself; the image by its digest, which cannot change (R6).

    `mounts` are `SOURCE[:TARGET][:ro]`, beside the workspace; without a `user` it is ours; `options` are the engine's.
    """

    engine: Literal["docker", "podman"] = "docker"
    image: str = Field(min_length=1)
    mounts: tuple[str, ...] = ()
    network: bool = True
    user: str | None = None
    options: tuple[str, ...] = ()


SandboxKind = Literal["bubblewrap", "container", "none"]


class PlaceSpec(Value):
    """Where programs run, as it was approved: what they reach of this machine, and whether they reach the network.

    `read` and `write` are what bubblewrap shows beside the system and the workspace: absolute paths, or `~/…`.
    """

    kind: SandboxKind = "none"
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool = True
    container: ContainerSpec | None = None

    @property
    def confined(self) -> bool:
        """Whether anything keeps programs there from the rest of this machine."""
        return self.kind != "none"


OPEN: Final = PlaceSpec()
"""This machine itself."""


def _is_open(value: object) -> bool:
    """Whether to leave out a place, so that a plan from before there were any keeps its digest."""
    return value == OPEN


class Placed(Value):
    """What names the place of its programs."""

    place: PlaceSpec = Field(default=OPEN, exclude_if=_is_open)

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, data: object) -> object:
        """A plan from before there was `place` names a container, or nothing."""
        if not isinstance(data, Mapping) or "container" not in data:
            return data
        container = data["container"]
        place = {"place": {"kind": "container", "container": container}} if container else {}
        return {**{key: value for key, value in data.items() if key != "container"}, **place}
