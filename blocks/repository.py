"""Where a repository is: the one thing a worker has to be told (ruling R21)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from prefect.blocks.core import Block
from pydantic import Field

from irontree.app import App, Origin
from irontree.blocks.gitea_credentials import GiteaCredentials
from irontree.blocks.github_credentials import GitHubCredentials
from irontree.bootstrap import open_app
from irontree.errors import ConfigRefused
from irontree.ports import Cancellation, Progress


class IrontreeRepository(Block):
    """A repository that Iron Tree works on, by the path of its main worktree on its home machine."""

    _block_type_name = "Iron Tree Repository"
    _block_type_slug = "irontree-repository"

    path: str = Field(description="Absolute path of the repository's main worktree on the machine that works on it.")
    credentials: GitHubCredentials | GiteaCredentials | None = Field(
        default=None, description="For its forge; without them, what the worker's environment has."
    )


def keep_block(name: str, root: Path) -> None:
    """Have a block of that name for the repository at *root*; credentials that a person gave it stay.

    Raises what Prefect's client raises.
    """
    try:
        block = _load(name)
    except ConfigRefused:
        block = IrontreeRepository(path=str(root))
    else:
        if block.path == str(root):
            return
        block.path = str(root)
    block.save(name, overwrite=True, _sync=True)  # type: ignore[call-arg]


def app_of(
    repository: str,
    *,
    origin: Origin,
    cancel: Cancellation | None = None,
    progress: Progress | None = None,
) -> App:
    """The ports of *repository*: an absolute path, or the name of an `irontree-repository` block.

    Raises ConfigRefused for a block that does not exist, and what `open_app` raises.
    """
    if Path(repository).is_absolute():
        return open_app(Path(repository), origin=origin, cancel=cancel, progress=progress)
    block = _load(repository)
    environment = {**os.environ, **(block.credentials.variables() if block.credentials else {})}
    return open_app(Path(block.path), origin=origin, cancel=cancel, progress=progress, environment=environment)


def _load(name: str) -> IrontreeRepository:
    try:
        return cast("IrontreeRepository", IrontreeRepository.load(name, _sync=True))  # type: ignore[call-arg]
    except ValueError as error:
        raise ConfigRefused(
            f"there is no repository block named {name}",
            remedy="give an absolute path, or save a block of type Iron Tree Repository under that name",
        ) from error
