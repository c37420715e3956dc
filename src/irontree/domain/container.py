"""In what programs run instead of on the machine itself: as a person approved it (ruling R6)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from irontree.domain.values import Value


class ContainerSpec(Value):
    """In what programs run instead of on the machine itself; the image by its digest, which cannot change (ruling R6).

    `mounts` are `SOURCE[:TARGET][:ro]`, beside the workspace; without a `user` it is ours; `options` are the engine's.
    """

    engine: Literal["docker", "podman"] = "docker"
    image: str = Field(min_length=1)
    mounts: tuple[str, ...] = ()
    network: bool = True
    user: str | None = None
    options: tuple[str, ...] = ()
