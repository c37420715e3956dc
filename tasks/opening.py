"""Opens the repository that a run was given: by its path, or by the name of a block."""

from __future__ import annotations

import os
from pathlib import Path

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.ports import Cancellation, Progress


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
    # Declaring types of blocks takes 25 ms of a run's start, and most runs are given a path.
    from irontree.blocks import load_repository  # noqa: PLC0415

    block = load_repository(repository)
    environment = {**os.environ, **(block.credentials.variables() if block.credentials else {})}
    return open_app(Path(block.path), origin=origin, cancel=cancel, progress=progress, environment=environment)
