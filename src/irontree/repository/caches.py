"""What `workspace.setup` made, kept for the next workspace: built from what is published, and copied in (R4).

A workspace is never lent a cache: what an agent or a check writes into its copy is gone with the workspace.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Final

from irontree.domain.checks import truncate
from irontree.domain.plan import WorkspacePolicy, canonical_digest
from irontree.errors import EnvironmentRefused
from irontree.files import folder_beneath, make_private, remove, remove_at
from irontree.processes.children import ChildProcesses, Completed
from irontree.processes.family import ProcessLimits
from irontree.repository.git import AGAIN_SECONDS, Git, was_killed
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
_NAMES, _PATHS = (
    re.compile("|".join(translate(pattern) for pattern in DEPENDENCIES if ("/" in pattern) is whole))
    for whole in (False, True)
)
KEPT: Final = 8
"""Caches of one repository; of more, those that were not used for longest are removed."""
COPY_SECONDS: Final = 600
_NOISE: Final = ("__pycache__", "*.egg-info")
_COPY: Final = ("cp", "-cRp") if sys.platform == "darwin" else ("cp", "-a", "--reflink=auto")


@dataclass(frozen=True, slots=True)
class SetupCaches:
    """The caches of one home in *folder*, for the workspace at *workspace*; its path is part of what was built."""

    folder: Path
    workspace: Path
    policy: WorkspacePolicy
    children: ChildProcesses
    remove: Callable[[Path], None] = remove
    sync: Callable[[], None] = os.sync

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
        self._copy(cache, self.workspace, self._found_in(cache))

    def keep(self, key: str, made: Collection[str]) -> None:
        """Copy out of the workspace what the policy names of all that set-up has *made*.

        A cache that is half made, or not on the disk yet, is never visible.
        """
        make_private(self.folder)
        remove_half_made(self.folder)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=MAKING) as folder:
            cache = Path(folder) / key
            cache.mkdir()
            self._copy(self.workspace, cache, filter(self._is_named, made))
            self.sync()
            if not self.has(key):
                cache.rename(self.folder / key)
        self._remove_unused()

    def missed(self, made: Iterable[str]) -> tuple[str, ...]:
        """What of all that set-up has *made* is not there where a cache serves."""
        return tuple(path for path in made if not (self._is_named(path) or self._is_above(path) or _is_noise(path)))

    @property
    def _named(self) -> tuple[str, ...]:
        return tuple(path.strip("/") for path in self.policy.cache_paths)

    def _is_named(self, path: str) -> bool:
        """A name without a slash applies to every folder, as in `.gitignore`: packages have a `node_modules` each."""
        return path in self._named or path.rpartition("/")[2] in self._named

    def _is_above(self, path: str) -> bool:
        return any(named.startswith(f"{path}/") for named in self._named)

    def _found_in(self, cache: Path) -> Iterator[str]:
        for folder, folders, files in os.walk(cache):
            paths = {name: str(Path(folder, name).relative_to(cache)) for name in (*folders, *files)}
            found = {name: path for name, path in paths.items() if self._is_named(path)}
            yield from found.values()
            folders[:] = [name for name in folders if name not in found]

    def _copy(self, source: Path, target: Path, paths: Iterable[str]) -> None:
        for path in {*self._named, *paths}:
            folder, _, name = path.rpartition("/")
            try:
                with folder_beneath(source, folder), folder_beneath(target, folder, create=True) as here:
                    remove_at(here, name)
            except OSError as error:  # a link leads elsewhere
                raise _not_copied(path, source, error.strerror) from error
            if os.path.lexists(source / path):
                self._copy_entry(source / path, target / folder)

    def _copy_entry(self, entry: Path, target: Path) -> None:
        """Copy a file or folder, again if a signal ended that; links in it are copied, not followed."""
        done = self._copied(entry, target)
        for _ in AGAIN_SECONDS:
            if not was_killed(done):
                break
            remove(target / entry.name)
            done = self._copied(entry, target)
        if not done.ok:
            raise _not_copied(entry.name, entry.parent, truncate(done.output))

    def _copied(self, entry: Path, target: Path) -> Completed:
        return self.children.run(
            [*_COPY, str(entry), f"{target}/"],
            cwd=self.folder,
            environment={"PATH": os.defpath, "LC_ALL": "C"},
            limits=ProcessLimits(COPY_SECONDS),
        )

    def _remove_unused(self) -> None:
        found = (path for path in self.folder.iterdir() if not path.name.startswith(MAKING))
        for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-KEPT]:
            unused = path.with_name(f"{MAKING}{path.name}")
            path.rename(unused)  # what is half removed must not pass for a whole one
            self.remove(unused)


def _not_copied(path: str, source: Path, why: str | None) -> EnvironmentRefused:
    return EnvironmentRefused(
        f"workspace.cache: {path} cannot be copied from {source}: {why}",
        remedy="name what workspace.setup makes, not through a link, and see that the disk has room",
    )


def _is_noise(path: str) -> bool:
    """Whether nothing needs it: what a program writes where it runs, and `pip install -e` beside what it installs."""
    return any(fnmatchcase(path.rpartition("/")[2], pattern) for pattern in _NOISE)


def _dependencies(git: Git, tree: str) -> Iterator[tuple[str, str]]:
    """The files of the tree that say what set-up installs, each with the id of its content."""
    for entry in git.repo.paths("ls-tree", "-r", "-z", "--full-tree", tree):
        facts, _, path = entry.partition("\t")
        if _says_what_to_install(path.lower()):
            yield path, facts.rpartition(" ")[2]


def _says_what_to_install(path: str) -> bool:
    return bool(_NAMES.match(path.rpartition("/")[2]) or _PATHS.match(path))
