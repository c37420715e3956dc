"""`container:` of `.mino/config.yml`: in what agents, set-up commands and checks run."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from irontree.domain.settings import Section

_DIGEST: Final = re.compile(r"(?:(?:[^\s@-][^\s@]*@)?sha256:)?[0-9a-f]{64}")


def _image(name: str) -> str:
    if not _DIGEST.fullmatch(name):
        raise ValueError(
            f"expected a digest, so that what is approved is what runs: NAME@sha256:… or an image's id, got {name!r}; "
            f"`docker image inspect --format '{{{{.Id}}}}' {name}` says that, and so does podman"
        )
    return name


def _mount(given: str) -> str:
    path, _, end = given.rpartition(":")
    parts = (path if end == "ro" else given).split(":")
    if len(parts) > 2 or not all(part.startswith("/") for part in parts):  # noqa: PLR2004  (source and target)
        raise ValueError(f"expected /SOURCE, /SOURCE:/TARGET, or either with `:ro` behind it, got {given!r}")
    return given


ImageDigest = Annotated[str, AfterValidator(_image)]
Mount = Annotated[str, AfterValidator(_mount)]


class Container(Section):
    """In what agents, set-up commands and checks run instead of on the machine itself."""

    image: ImageDigest | None = Field(
        default=None,
        description="By digest, so that it cannot change: `NAME@sha256:…` or `sha256:…`. Unset: nothing is contained.",
    )
    engine: Literal["docker", "podman"] = Field(default="docker", description="The program that runs containers.")
    mounts: tuple[Mount, ...] = Field(
        default=(),
        description="What else of this machine it sees: `/SOURCE`, `/SOURCE:/TARGET`, or either with `:ro` behind it.",
    )
    network: bool = Field(
        default=True, strict=True, description="Whether it reaches the network; most agents need that."
    )
    user: str | None = Field(default=None, pattern=r"^[^\s-]\S*$", description="`UID:GID` or a name. Unset: yours.")
    options: tuple[str, ...] = Field(default=(), description="More words for `docker run` or `podman run`.")

    @model_validator(mode="after")
    def _says_in_which(self) -> Self:
        """Who says how something is contained must not find that nothing is."""
        if self.model_fields_set and self.image is None:
            raise ValueError("without `image` nothing runs in a container: name one, or leave the section out")
        return self
