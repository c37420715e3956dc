"""What `workspace.setup` made, kept for the next workspace: built from what is published, and copied in (R4).

A workspace is never lent a cache: what an agent or a check writes into its copy is gone with the workspace.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from irontree.domain.checks import truncate
from irontree.domain.plan import WorkspacePolicy, canonical_digest
from irontree.errors import EnvironmentRefused
from irontree.files import folder_beneath, make_private, remove, remove_at
from irontree.processes import ChildProcesses
from irontree.processes.family import ProcessLimits
from irontree.repository.git import Git
from irontree.repository.store import MAKING, remove_half_made

DEPENDENCIES: Final = (
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-*.yaml", "yarn.lock", ".yarnrc*", ".npmrc"),
    *("bun.lock*", "deno.lock", ".nvmrc", ".node-version", ".python-version", ".tool-versions", "mise.toml"),
    *("pyproject.toml", "setup.py", "setup.cfg", "*requirements*.txt", "constraints*.txt", "requirements/*.txt"),
    *("uv.lock", "uv.toml", "poetry.lock", "pdm.lock", "pipfile", "pipfile.lock", "environment*.y*ml", "pixi.lock"),
    *("cargo.toml", "cargo.lock", "rust-toolchain*", "go.mod", "go.sum", "go.work*", "gemfile*", "*.gemspec"),
    *("composer.json", "composer.lock", "mix.exs", "mix.lock", "pom.xml", "*.gradle*", "gradle/*", "*.csproj"),
    *("packages.lock.json", "package.swift", "package.resolved", "makefile", ".gitmodules"),
)
"""Files that say what set-up installs, in small letters."""
KEPT: Final = 8
"""Caches of one repository; of more, those that were not used for longest are removed."""
COPY_SECONDS: Final = 600
_COPY: Final = ("cp", "-cRp") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")


@dataclass(frozen=True, slots=True)
class SetupCaches:
    """The caches of one home in *folder*, for the workspace at *workspace*; its path is part of what was built."""

    folder: Path
    workspace: Path
    policy: WorkspacePolicy
    children: ChildProcesses

    def key(self, git: Git, tree: str) -> str:
        """The name of the cache for that tree: 64 hex over all that decides what set-up makes of it."""
        return canonical_digest(
            [
                self.policy.model_dump(exclude={"copy_files"}),
                str(self.workspace),
                [sys.platform, platform.machine(), platform.python_version()],
                sorted(_dependencies(git, tree)),
            ]
        )

    def has(self, key: str) -> bool:
        """Whether there is a whole one."""
        return (self.folder / key).is_dir()

    def bring(self, key: str) -> None:
        """Copy it into the workspace, in place of what has its paths there."""
        cache = self.folder / key
        os.utime(cache)
        self._copy(cache, self.workspace)

    def keep(self, key: str) -> None:
        """Copy what set-up has made out of the workspace; one that is half made is never visible."""
        make_private(self.folder)
        remove_half_made(self.folder)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=MAKING) as folder:
            made = Path(folder) / key
            made.mkdir()
            self._copy(self.workspace, made)
            if not self.has(key):
                made.rename(self.folder / key)
        self._remove_unused()

    def _copy(self, source: Path, target: Path) -> None:
        for path in self.policy.cache_paths:
            folder, _, name = path.rstrip("/").rpartition("/")
            try:
                with folder_beneath(source, folder), folder_beneath(target, folder, create=True) as here:
                    remove_at(here, name)
            except OSError as error:  # a link leads elsewhere
                raise _not_copied(path, source, error.strerror) from error
            if os.path.lexists(source / path):
                self._copy_entry(source / path, target / folder)

    def _copy_entry(self, entry: Path, target: Path) -> None:
        """Copy a file or folder; links in it are copied, not followed."""
        done = self.children.run(
            [*_COPY, str(entry), f"{target}/"],
            cwd=self.folder,
            environment={"PATH": os.defpath, "LC_ALL": "C"},
            limits=ProcessLimits(COPY_SECONDS),
        )
        if not done.ok:
            raise _not_copied(entry.name, entry.parent, truncate(done.output))

    def _remove_unused(self) -> None:
        found = (path for path in self.folder.iterdir() if not path.name.startswith(MAKING))
        for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-KEPT]:
            remove(path)


def _not_copied(path: str, source: Path, why: str | None) -> EnvironmentRefused:
    return EnvironmentRefused(
        f"workspace.cache: {path} cannot be copied from {source}: {why}",
        remedy="name what workspace.setup makes, not through a link, and see that the disk has room",
    )


def _dependencies(git: Git, tree: str) -> Iterator[tuple[str, str]]:
    """The files of the tree that say what set-up installs, each with the id of its content."""
    for entry in git.repo.paths("ls-tree", "-r", "-z", "--full-tree", tree):
        facts, _, path = entry.partition("\t")
        if _says_what_to_install(path.lower()):
            yield path, facts.rpartition(" ")[2]


def _says_what_to_install(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in DEPENDENCIES)
