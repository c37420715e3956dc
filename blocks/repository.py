"""The Prefect block with a repository's path, all that a worker has to be told (R21)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from prefect.blocks.core import Block
from pydantic import Field

from irontree.blocks.credentials import GiteaCredentials, GitHubCredentials
from irontree.errors import ConfigRefused


class IrontreeRepository(Block):
    """A repository that Iron Tree works on, by the path of its main worktree on its home machine."""

    _block_type_name = "Iron Tree Repository"
    _block_type_slug = "irontree-repository"

    path: str = Field(description="Absolute path of the repository's main worktree on the machine that works on it.")
    credentials: GitHubCredentials | GiteaCredentials | None = Field(
        default=None, description="For its forge; without them, what the worker's environment has."
    )


def keep_block(name: str, root: Path) -> None:
    """Save a block of that name for the repository at *root*, keeping credentials that a user added.

    Raises what Prefect's client raises.
    """
    try:
        block = load_repository(name)
    except ConfigRefused:
        block = IrontreeRepository(path=str(root))
    else:
        if block.path == str(root):
            return
        block.path = str(root)
    block.save(name, overwrite=True, _sync=True)  # type: ignore[call-arg]


def load_repository(name: str) -> IrontreeRepository:
    """The block that was saved under *name*; raises ConfigRefused if there is none."""
    try:
        return cast("IrontreeRepository", IrontreeRepository.load(name, _sync=True))  # type: ignore[call-arg]
    except ValueError as error:
        raise ConfigRefused(
            f"there is no repository block named {name}",
            remedy="give an absolute path, or save a block of type Iron Tree Repository under that name",
        ) from error
