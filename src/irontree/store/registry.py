"""The repositories of this machine's user that `irontree serve` and `irontree inbox` look after.

One file per repository, named after its workspace id, with the path of its main worktree as its text. These files are
the one truth about it: a Prefect server may be deleted or exchanged, and its blocks are made from them.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import platformdirs

from irontree.files import disk_errors, replace

ID = re.compile(r"[0-9a-f]{12}")


class Registered(NamedTuple):
    """A repository by its workspace id and the path of its main worktree."""

    id: str
    root: Path


@dataclass(frozen=True, slots=True)
class RepositoryRegistry:
    """The files in *folder*."""

    folder: Path

    def add(self, repository_id: str, root: Path) -> None:
        """Note the repository, or where it is now; raises EnvironmentRefused if the disk refuses."""
        replace(self.folder / repository_id, os.fsencode(root) + b"\n")

    def remove(self, repository_id: str) -> bool:
        """Forget it; whether it was known. Nothing in the repository changes."""
        path = self.folder / repository_id
        with disk_errors(path):
            known = path.exists()
            path.unlink(missing_ok=True)
        return known

    def all(self) -> tuple[Registered, ...]:
        """All entries, by path; raises EnvironmentRefused if the disk refuses."""
        return self.listed() or ()

    def listed(self) -> tuple[Registered, ...] | None:
        """As `all`; None without the folder: before the first is added, and while the file system it is on is away."""
        with disk_errors(self.folder), suppress(FileNotFoundError, NotADirectoryError):
            files = [path for path in self.folder.iterdir() if ID.fullmatch(path.name)]
            return tuple(sorted(filter(None, map(_registered, files)), key=lambda known: (known.root, known.id)))
        return None


def _registered(path: Path) -> Registered | None:
    """The entry in *path*; `None` if it was just removed, or is a folder. The line end is no part of the path."""
    with disk_errors(path), suppress(FileNotFoundError, IsADirectoryError):
        return Registered(path.name, Path(os.fsdecode(path.read_bytes().removesuffix(b"\n"))))
    return None


def user_registry() -> RepositoryRegistry:
    """The one of this user."""
    return RepositoryRegistry(platformdirs.user_state_path("irontree") / "repositories")
