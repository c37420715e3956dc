"""The user's hooks of a commit, run on a fresh checkout with a throw-away `.git` of its own (R4).

What they may have changed is taken from that folder as from any workspace: its files, and the message as text. Hooks
that are kept in the repository are those of the commit that is built on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from irontree.domain.text import shell_word
from irontree.files import read_beneath, write_beneath
from irontree.ports import CommitRefused
from irontree.processes.children import ChildProcesses, Completed
from irontree.processes.family import SHELL, ProcessLimits
from irontree.repository.git import AGAIN_SECONDS, Git, said, shown, was_killed
from irontree.repository.settings import Settings
from irontree.repository.taking import Taken, take
from irontree.repository.throwaway import ThrowAwayGit

SECONDS: Final = 900
_MESSAGE_BYTES: Final = 1024 * 1024
_MESSAGE: Final = ".git/COMMIT_EDITMSG"
_KEPT: Final = ".git/kept"
"""Where hooks that are kept in the repository are put, with what stands beside them."""
_OF_A_COMMIT: Final = {name: name for name in ("pre-commit", "prepare-commit-msg", "commit-msg")}
_OF_A_MERGE: Final = _OF_A_COMMIT | {"pre-commit": "pre-merge-commit"}
"""For each hook that `git commit` runs, which of the user's that is."""
_GIT: Final = (
    *("git", "-c", "core.hooksPath=.git/hooks", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"),
    *("-c", "commit.gpgSign=false", "-c", "core.quotePath=false", "-c", "submodule.recurse=false"),
)
_SETTLE: Final = """\
export GIT_DIR=.git GIT_WORK_TREE=. GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=false
git status --porcelain -z --untracked-files=all --no-renames && git reset --quiet --hard && git clean -ffdq
"""
"""Says what the hooks left beside the commit, and brings the files to what was committed."""


def hooks_folder(settings: Settings, common_dir: Path) -> Path | None:
    """The user's hooks outside the repository's files; None if they are kept among them."""
    if settings.relative_hooks_path:
        return None
    return Path(settings.hooks_path).expanduser() if settings.hooks_path else common_dir / "hooks"


def has_hooks(settings: Settings, common_dir: Path) -> bool:
    """Whether a commit or a merge may run hooks of the user."""
    folder = hooks_folder(settings, common_dir)
    return folder is None or any(_is_hook(folder / name) for name in {*_OF_A_COMMIT.values(), *_OF_A_MERGE.values()})


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@dataclass(frozen=True, slots=True)
class HookRun:
    """One commit on *head* of the files in the folder of *throwaway*; *theirs* makes it a merge."""

    throwaway: ThrowAwayGit
    children: ChildProcesses
    """Those of the place that is approved for what an agent may have written."""
    environment: Mapping[str, str] = field(repr=False)
    settings: Settings
    head: str
    theirs: str | None = None

    @property
    def folder(self) -> Path:
        """Where they run."""
        return self.throwaway.workspace

    @property
    def git(self) -> Git:
        """Git on the private store, with the index of that folder."""
        return self.throwaway.store.git(self.folder, self.throwaway.name)

    def run(self, message: str) -> tuple[Taken, str] | CommitRefused | None:
        """What is to be committed after the hooks, and the message; None if nothing is left.

        A hook that changes files and refuses gets a second try with what it changed.
        """
        before = self.git.change("write-tree")
        done = self._commit(message)
        if not done.ok:
            changed = take(self.git, self.folder, self.head)
            if not isinstance(changed, Taken) or changed.tree == before:
                return changed if changed is None else CommitRefused(said(done))
            done = self._commit(message)
        if not done.ok:
            return CommitRefused(said(done))
        written = read_beneath(self.folder, _MESSAGE, _MESSAGE_BYTES)
        if written is None:
            return CommitRefused(f"hooks left no message in {self.folder / _MESSAGE}")
        left = self._settle()
        taken = take(self.git, self.folder, self.head)
        if not isinstance(taken, Taken):
            return taken
        return taken._replace(left=(*left, *taken.left)), written.decode("utf-8", "replace")

    def _commit(self, message: str) -> Completed:
        """Commit in the throw-away repository; again with another one if a signal ended git."""
        words = (*_GIT, "commit", "--quiet", "--no-status", "--cleanup=whitespace", "--file=-")
        done = self._commit_once(words, message)
        for _ in AGAIN_SECONDS:
            if not was_killed(done):
                break
            done = self._commit_once(words, message)
        return done

    def _commit_once(self, words: Iterable[str], message: str) -> Completed:
        self._put_git()
        return self._run(words, message.encode())

    def _settle(self) -> tuple[str, ...]:
        said_left = self._run((SHELL, "-c", _SETTLE)).output
        return tuple(shown(entry[3:]) for entry in said_left.split("\0") if entry[2:3] == " ")

    def _run(self, words: Iterable[str], stdin: bytes = b"") -> Completed:
        limits = ProcessLimits(SECONDS)
        return self.children.run([*words], cwd=self.folder, environment=self.environment, limits=limits, stdin=stdin)

    def _put_git(self) -> None:
        new = (self.head, *((self.theirs,) if self.theirs else ()))
        self.throwaway.put(self.head, self.settings, new, self.git.change("write-tree"))
        if self.theirs:
            write_beneath(self.folder, ".git/MERGE_HEAD", f"{self.theirs}\n".encode())
        hooks = self.folder / ".git" / "hooks"
        users = hooks_folder(self.settings, self.throwaway.store.common_dir)
        if users is None:
            relative = str(self.settings.relative_hooks_path)
            self._put_kept(relative.partition("/")[0])
            users = self.folder / _KEPT / relative
        elif self.settings.hooks_path is None:  # with what they find beside them
            ignored = shutil.ignore_patterns("*.sample", "post-*")
            shutil.copytree(users, hooks, dirs_exist_ok=True, ignore=ignored, ignore_dangling_symlinks=True)
        for name, own in (_OF_A_MERGE if self.theirs else _OF_A_COMMIT).items():
            self._put_hook(hooks / name, users / own)

    def _put_hook(self, hook: Path, users: Path) -> None:
        """Have git run *users* as *hook*, under its own name: it looks for what it needs from there."""
        if self.settings.hooks_path is None and hook.name == users.name:
            return
        hook.unlink(missing_ok=True)
        if _is_hook(users):
            path = users.relative_to(self.folder) if users.is_relative_to(self.folder) else users
            hook.write_text(f'#!/bin/sh\nexec {shell_word(str(path))} "$@"\n', encoding="utf-8")
            hook.chmod(0o755)

    def _put_kept(self, top: str) -> None:
        """Put the hooks of the repository there: what set-up made of them, and the files that *head* has."""
        kept = self.folder / _KEPT
        kept.mkdir()
        for path in self.git.repo.paths("ls-files", "--others", "-z", "--", top):
            if (data := read_beneath(self.folder, path, _MESSAGE_BYTES)) is not None:
                write_beneath(kept, path, data)
                (kept / path).chmod(0o755)
        self.throwaway.store.git(kept, "kept").run("checkout", "--quiet", "--force", self.head, "--", top)
