"""The user's checkout, as it is: what of it is in no commit, what git has begun there, what is in the way of a move."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from irontree.domain.text import few
from irontree.files import read_bytes
from irontree.repository.git import STATE_FOLDER, Git, shown
from irontree.repository.location import worktrees

_SHARED: Final = frozenset(f"{STATE_FOLDER}/{name}" for name in ("config.yml", ".gitignore"))
_INDEX_BYTES: Final = 64 * 1024 * 1024
_SPLIT: Final = b"link"
"""Marks the part of an index that names another one for its paths."""
_FIELDS: Final = {"1": 8, "u": 10, "?": 1}
"""Number of fields before the path in an entry of `git status --porcelain=v2`: changed, unmerged, untracked."""
_BEGUN: Final = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick",
    "BISECT_LOG": "a bisect",
}
"""What git keeps in its folder while it is in the middle of something, and what that is."""
_HOLDING: Final = ("rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs", "BISECT_START")
"""Files that name the branches that git moves or returns to when it has ended what it has begun."""
_HOLDING_BYTES: Final = 1_000_000


class InTheWay(NamedTuple):
    """Why a checkout is not moved, and what the user can do about it."""

    what: str
    remedy: str
    is_failure: bool = False
    """Git or the disk failed: it is nothing of the user's."""


def changed_paths(git: Git, submodules: Literal["all", "untracked"] = "untracked") -> tuple[str, ...]:
    """Paths whose content in the worktree or the index is in no commit, untracked ones too; the index stays untouched.

    *submodules* is what of them to ignore: untracked files in them, or all that is not staged.
    """
    entries = git.repo.paths(
        *("status", "--porcelain=v2", "-z", "--untracked-files=all"),
        *("--no-renames", f"--ignore-submodules={submodules}"),
    )
    return tuple(entry.split(" ", _FIELDS[entry[0]])[-1] for entry in entries)


def committed_state(git: Git) -> tuple[str, ...]:
    """What of `.mino/` is tracked in the main worktree, but for what is meant to be: whoever can push wrote it."""
    if not _may_name(git.git_dir / "index", STATE_FOLDER.encode()):
        return ()
    listed = git.read("ls-files", "-z", "--", f":(icase,top){STATE_FOLDER}")  # for who only looks: no GitPython
    tracked = filter(None, os.fsdecode(listed).split("\0"))
    return tuple(shown(path) for path in tracked if path not in _SHARED)


def _may_name(index: Path, name: bytes) -> bool:
    """Whether a path in the index may have *name* in it, in whatever case; False only if none has, without asking git.

    Paths stand there in full, but for an index of version 4, one that is split, and one that is too large to look at.
    """
    data = read_bytes(index, _INDEX_BYTES)
    if data is None:
        return False
    in_full = data.startswith((b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")) and len(data) <= _INDEX_BYTES
    return not in_full or _SPLIT in data or name in data.lower()


def without(paths: Iterable[str], spared: Sequence[str]) -> tuple[str, ...]:
    """*paths* as they are shown, without those that are in *spared*, or in a folder of it."""
    kept = tuple(path.rstrip("/") for path in spared)
    return tuple(shown(path) for path in paths if not any(path == each or path.startswith(f"{each}/") for each in kept))


def worktree_of(git: Git, branch: str) -> Path | None:
    """The worktree with *branch* checked out. For a submodule git lists its git folder first: that means ours.

    One whose folder is gone, which git lists until `git worktree prune`, is none.
    """
    if git.repo.stands_at(branch):
        return git.folder
    main, *linked = worktrees(git)
    if main.branch == branch:
        return main.path if (main.path / ".git").exists() else git.folder
    return next((each.path for each in linked if each.branch == branch and (each.path / ".git").exists()), None)


def is_held(common_dir: Path, branch: str) -> bool:
    """Whether a rebase or a bisect in any worktree returns to *branch*: it must not move meanwhile."""
    names = {branch, branch.removeprefix("refs/heads/")}
    folders = (common_dir, *common_dir.glob("worktrees/*"))
    texts = (read_bytes(folder / name, _HOLDING_BYTES) or b"" for folder in folders for name in _HOLDING)
    return any(not names.isdisjoint(text.decode("utf-8", "surrogateescape").split()) for text in texts)


_OUT_OF_THE_WAY: Final = "commit or stash them (`git stash -u` takes untracked files too)"


def in_the_way(there: Git, before: str, after: str) -> InTheWay | None:
    """What of the user's is in the way of moving the checkout *there* from commit *before* to *after*, if anything.

    Git itself would write a file that was deleted, and go on in the middle of a revert.
    """
    begun = next((what for name, what in _BEGUN.items() if (there.git_dir / name).exists()), None)
    if begun:
        return InTheWay(f"{begun} is under way in {there.folder}", "finish it or abort it")
    moving = there.repo.paths("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
    if found := _touching(changed_paths(there, "all"), moving):
        return InTheWay(f"changes in no commit: {few([shown(path) for path in found])}", _OUT_OF_THE_WAY)
    return None


def _touching(changed: Iterable[str], moving: Iterable[str]) -> list[str]:
    """Those of *changed* that are among *moving*, in a folder that one of them becomes, or where its folder goes."""
    files = set(moving)
    folders = {str(folder) for path in files for folder in Path(path).parents}
    return [
        path
        for path in changed
        if path in files or path in folders or any(str(above) in files for above in Path(path).parents)
    ]
