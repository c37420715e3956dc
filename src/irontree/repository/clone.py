"""The `.git` of a private workspace: a clone that shares objects, without a remote (R4), restored before each use.

An agent controls the whole workspace, including `.git`. Everything in it that would affect our own commands
(settings, hooks, ignore rules, half-done merges, locks) is therefore written afresh and never trusted.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from irontree.domain.settings import leads_out
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.files import remove
from irontree.ports import Document
from irontree.repository.git import FETCH, Git
from irontree.repository.locks import PrivateLocks
from irontree.repository.settings import Settings

_MAKING = ".making-"
_TEMPORARY = ("tmp_", ".tmp-", "incoming-")
_GLOB, _LITERAL = re.compile(r"[\\*?\[]"), r"\\\g<0>"

# Unfinished operations that outlive a reset: a stopped rebase, cherry-pick or bisection.
_UNFINISHED = ("rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG", "BISECT_START")


@dataclass(frozen=True, slots=True)
class PrivateClone:
    """The clone at *folder*; *source* is git in the user's main worktree, *common_dir* its `.git`."""

    folder: Path
    source: Git
    common_dir: Path

    @property
    def git_dir(self) -> Path:
        """Its own `.git`."""
        return self.folder / ".git"

    @property
    def stores(self) -> tuple[Path, ...]:
        """The shared object stores, from the user's repository: the clone's own list may be changed by an agent."""
        return object_stores(self.common_dir)

    def restore(self, settings: Settings, excluded: Sequence[str]) -> None:
        """Make the clone if it is missing, and restore everything that would affect our commands.

        *excluded* are paths that no commit may ever include.
        """
        if not self._is_intact():
            self.renew()
        remove(self.git_dir / "config")
        config = self._origin_config.read_text(encoding="utf-8") + settings.for_workspace(self.common_dir)
        (self.git_dir / "config").write_text(config, encoding="utf-8")
        self._restore_hooks(settings)
        self._restore_info(excluded)
        self._borrow(self.git_dir)
        for name in _UNFINISHED:
            remove(self.git_dir / name)
        self.remove_leftovers()

    def remove_leftovers(self) -> int:
        """Remove the locks and temporaries of a killed git; returns how many. Nobody may be at work here."""
        if self.folder.is_symlink() or self.git_dir.is_symlink():
            return 0
        found = (*PrivateLocks(self.git_dir).found(), *_temporaries(self.git_dir))
        for path in found:
            remove(path)
        return len(found)

    def _is_intact(self) -> bool:
        """Whether it is complete, and nothing in it leads us elsewhere or blocks: a link, a pipe, another `.git`."""
        if (self.git_dir / "commondir").exists() or not (self.git_dir / "HEAD").is_file():
            return False
        found = (self.git_dir, *self.git_dir.rglob("*"))
        return self._origin_config.is_file() and not any(path.is_symlink() or path.is_fifo() for path in found)

    def has_hooks(self, settings: Settings) -> bool:
        """Whether a commit in the restored clone may run hooks of the user."""
        hooks = self.git_dir / "hooks"
        return settings.hooks_path is not None or (hooks.is_dir() and any(hooks.iterdir()))

    def renew(self) -> None:
        """Recreate the clone under the existing files; a half-made one is never visible.

        `git clone` would create a remote and the user's branches, which would have to be removed.
        """
        self._origin_config.unlink(missing_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_half_made(self.folder.parent)
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=_MAKING) as made:
            git, users = self.source.at(Path(made)), self.source.repo
            ids = users.settings.get("extensions.objectformat") or "sha1"
            git.change("init", "--quiet", "--template=", f"--object-format={ids}")
            self._borrow(Path(made) / ".git")
            if users.git.for_each_ref("--count=1", "refs/tags"):
                git.change(*FETCH, str(self.source.folder), "refs/tags/*:refs/tags/*")
            remove(self.git_dir)
            (Path(made) / ".git").rename(self.git_dir)
        shutil.copyfile(self.git_dir / "config", self._origin_config)

    @property
    def _origin_config(self) -> Path:
        """Settings that `git init` detected from the file system; their presence marks the clone as complete."""
        return self.folder.parent / f"{self.folder.name}.gitconfig"

    def _restore_hooks(self, settings: Settings) -> None:
        hooks = self.git_dir / "hooks"
        remove(hooks)
        users = self.common_dir / "hooks"
        if settings.hooks_path is None and users.is_dir():
            samples = shutil.ignore_patterns("*.sample")
            shutil.copytree(users, hooks, ignore=samples, ignore_dangling_symlinks=True)

    def _restore_info(self, excluded: Sequence[str]) -> None:
        info, users = self.git_dir / "info", self.common_dir / "info"
        remove(info)
        info.mkdir()
        ours = "".join(f"/{_GLOB.sub(_LITERAL, path)}\n" for path in excluded)
        (info / "exclude").write_bytes(_bytes(users / "exclude") + b"\n" + ours.encode())
        (info / "attributes").write_bytes(_bytes(users / "attributes"))

    def _borrow(self, git_dir: Path) -> None:
        """Borrow the user's objects, and take over which part of the history is there."""
        remove(git_dir / "shallow")
        if (self.common_dir / "shallow").is_file():
            shutil.copyfile(self.common_dir / "shallow", git_dir / "shallow")
        objects = git_dir / "objects"
        for folder in (objects, objects / "info"):
            if folder.is_symlink() or folder.is_file():  # written through, it would lead elsewhere
                remove(folder)
        (objects / "info").mkdir(parents=True, exist_ok=True)
        remove(objects / "info" / "alternates")
        (objects / "info" / "alternates").write_bytes(os.fsencode(self.common_dir / "objects") + b"\n")


def remove_half_made(folder: Path) -> int:
    """Remove the clones in *folder* that a kill left half made; returns how many."""
    found = (*folder.glob(f"{_MAKING}*"),)
    for half_made in found:
        remove(half_made)
    return len(found)


def _temporaries(git_dir: Path) -> Iterator[Path]:
    """What git writes before it renames it: objects, packs, folders of objects that arrive, packed references."""
    for folder, folders, files in os.walk(git_dir / "objects"):  # never follows a link
        yield from (Path(folder, name) for name in (*folders, *files) if name.startswith(_TEMPORARY))
        folders[:] = [name for name in folders if not name.startswith(_TEMPORARY)]
    if (git_dir / "packed-refs.new").is_file():
        yield git_dir / "packed-refs.new"


def object_stores(common_dir: Path) -> tuple[Path, ...]:
    """The object stores of the repository at *common_dir*: its own, and those that it borrows from in turn."""
    found, left = dict[Path, None](), [common_dir / "objects"]
    while left:
        store = left.pop(0)
        if store in found or not store.is_dir():
            continue
        found[store] = None
        listed = _bytes(store / "info" / "alternates").splitlines()
        left += [store / os.fsdecode(line) for line in listed if line and not line.startswith(b"#")]
    return tuple(found)


def require_inside(paths: Sequence[str]) -> None:
    """Raise ConfigRefused for a path of `workspace.copy` that leads out of the repository."""
    for path in paths:
        if leads_out(path):
            raise ConfigRefused(f"workspace.copy: {path} leads out of the repository", remedy="name a path inside it")


def copy_files(paths: Sequence[str], source: Path, folder: Path) -> None:
    """Copy untracked files and folders (`workspace.copy`) of the user's worktree into a workspace.

    Raises EnvironmentRefused for a path that is not there.
    """
    for path in paths:
        original, copy = source / path, folder / path
        if not original.exists():
            raise EnvironmentRefused(
                f"workspace.copy names {path}, which is not in {source}",
                remedy="create it, or take it out of workspace.copy in .mino/config.yml",
            )
        if not copy.parent.resolve().is_relative_to(folder.resolve()):
            raise EnvironmentRefused(f"workspace.copy: {path} leads out of {folder}", remedy="remove the link in it")
        try:
            _copy(original, copy)
        except OSError as error:
            message = f"workspace.copy: {path} cannot be copied to {folder}: {error}"
            raise EnvironmentRefused(message, remedy="see that it can be read, and that the disk has room") from error


def write_inside(folder: Path, document: Document) -> None:
    """Write a file below *folder*, never through a link: an agent may have committed one that leads elsewhere.

    Raises EnvironmentRefused.
    """
    target = folder / document.path
    try:
        if target.resolve() != folder.resolve() / document.path:
            raise EnvironmentRefused(
                f"{document.path} leads through a link", remedy="name a plain folder in report.docs_path"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(document.text.encode())
    except OSError as error:
        message = f"{document.path} cannot be written in {folder}: {error.strerror}"
        raise EnvironmentRefused(message, remedy="name a folder for it in report.docs_path") from error


def _copy(original: Path, copy: Path) -> None:
    remove(copy)  # never write through a link that was left there
    copy.parent.mkdir(parents=True, exist_ok=True)
    if original.is_dir():
        shutil.copytree(original, copy, symlinks=True)
    else:
        shutil.copy2(original, copy)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
