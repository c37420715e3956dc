"""Files are taken from a workspace into a tree of the store; nothing there is run or followed (R4, R5)."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from irontree.domain.text import few
from irontree.files import folder_beneath, open_below, remove_at
from irontree.ports import CommitRefused
from irontree.repository.git import DURABLY, STATE_FOLDER, Git, shown

if TYPE_CHECKING:
    from irontree.repository.reading import Change

_READ_BY_GIT: Final = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
"""Names that git opens wherever it finds them: a pipe in their place would block it."""
_DEPTH: Final = 200
"""Folders within folders that are looked through; what is deeper is nobody's work, and is removed."""
_POINTER: Final = "160000"
"""The mode of an entry that names a commit of another repository."""


class Taken(NamedTuple):
    """What differs from the base, as a tree of the store; *left* are paths that it leaves out."""

    tree: str
    files: tuple[str, ...]
    left: tuple[str, ...] = ()


def take(
    git: Git, folder: Path, base: str, *, whole: bool = True, without: Collection[str] = ()
) -> Taken | CommitRefused | None:
    """The tree of all files in *folder* that git does not ignore, on *base*; None if it is the tree of *base*.

    `.mino`, whatever it is and in other letters too, and the paths *without* stay as in *base*. Raises GitFailed for
    files that git refuses; unless *whole* is asked for, they are left out, and nothing is refused.
    """
    _take_apart(git, folder, disarm(folder))
    if whole:
        git.change(*DURABLY, "add", "--all")
    else:
        git.run(*DURABLY, "add", "--all", "--ignore-errors")
    changes = tuple(git.repo.changes("diff-index", "--cached", base))
    if whole and (refused := _refused(git, base, changes)):
        return refused
    ours = [change for change in changes if _is_ours(change.path) or _is_in(shown(change.path), without)]
    files = [change for change in changes if change not in ours]
    _put_back(git, ours)
    if not files:
        return None
    tree = git.change(*DURABLY, "write-tree").splitlines()[-1]
    return Taken(tree, *(tuple(shown(change.path) for change in found) for found in (files, ours)))


def _is_in(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _is_ours(path: str) -> bool:
    """Whether some system takes it for our folder, or for what is in it: one that ignores case or invisible signs."""
    first = path.partition("/")[0]
    return _folded("".join(sign for sign in first if unicodedata.category(sign) != "Cf")) == STATE_FOLDER


def _put_back(git: Git, changes: Iterable[Change]) -> None:
    """Undo them in the index."""
    lines = "".join(f"{change.old_mode} {change.old_id}\t{change.path}\0" for change in changes)
    if lines:
        git.change("update-index", "-z", "--index-info", stdin=os.fsencode(lines))


def asking_for(git: Git, folder: Path, attribute: str, programs: Collection[str]) -> str:
    """The first path in the index for which attributes in *folder* ask for one of *programs*, and that; or nothing."""
    if not programs:
        return ""
    listed = git.read("ls-files", "-z")
    found = git.at(folder).read("check-attr", "-z", "--stdin", attribute, stdin=listed).split(b"\0")
    asked = ((path, os.fsdecode(name)) for path, name in zip(found[::3], found[2::3], strict=False))
    return next((f"{shown(os.fsdecode(path))} (`{name}`)" for path, name in asked if name in programs), "")


def _refused(git: Git, base: str, changes: Iterable[Change]) -> CommitRefused | None:
    pointers = [shown(change.path) for change in changes if change.mode == _POINTER]
    if pointers:
        return CommitRefused(
            f"a commit of another repository would be recorded, which nobody else has: {few(pointers)}"
        )
    if any(change.is_new for change in changes) and (alike := _alike(git, base)):
        return CommitRefused(f"{few(alike)}: one file on a system that ignores case or the form of Unicode")
    return None


def _alike(git: Git, base: str) -> tuple[str, ...]:
    """Names in the index that differ in case or in the form of Unicode alone, unless all of them are in *base*."""
    spelled = defaultdict[str, list[str]](list)
    for name in _with_folders(git.repo.paths("ls-files", "-z")):
        spelled[_folded(name)].append(name)
    if not (found := [names for names in spelled.values() if len(names) > 1]):
        return ()
    known = _with_folders(git.repo.paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", base))
    return next((tuple(map(shown, sorted(names))) for names in found if not known.issuperset(names)), ())


def _with_folders(paths: Iterable[str]) -> set[str]:
    """The paths, and the folders that they are in."""
    names, left = set(paths), {path.rpartition("/")[0] for path in paths}
    while left:
        names |= left
        left = {name.rpartition("/")[0] for name in left} - names
    return names


def _folded(name: str) -> str:
    return (
        name.casefold()
        if name.isascii()
        else unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
    )


def disarm(folder: Path, path: str = "") -> tuple[str, ...]:
    """Remove from *path* below *folder* what would block git; returns the folders there that are repositories within.

    Links are not followed. Raises OSError for one in its place, or for none.
    """
    with folder_beneath(folder, path) as top:
        return tuple(_nested(top, ""))


def _take_apart(git: Git, folder: Path, nested: Iterable[str]) -> None:
    """Make files of repositories within: git would look into them, and record their commits, which nobody has.

    One in a folder that git ignores, such as a cache of packages, stays.
    """
    for path in nested:
        if not git.ask("check-ignore", "-z", "--stdin", stdin=os.fsencode(f"{path}\0")).stdout:
            with folder_beneath(folder, path) as within:
                remove_at(within, ".git")


def submodules(git: Git) -> tuple[str, ...]:
    """The paths of submodules in the index."""
    entries = git.repo.paths("ls-files", "--stage", "-z")
    return tuple(entry.partition("\t")[2] for entry in entries if entry.startswith(f"{_POINTER} "))


def whole_tree(git: Git) -> str:
    """The tree of all files that are in the work tree now, as a new index sees it, whatever it was taken from."""
    git.run("read-tree", "--empty")
    git.run("add", "--all", "--ignore-errors")
    return git.change("write-tree").splitlines()[-1]


def empty(folder: Path, paths: Iterable[str]) -> None:
    """Remove all that is in these folders below *folder*."""
    for path in paths:
        with folder_beneath(folder, path) as within:
            for name in _names(within):
                remove_at(within, name)


def _names(within: int) -> list[str]:
    with os.scandir(within) as found:
        return [entry.name for entry in found]


def _nested(within: int, path: str, depth: int = 0) -> Iterator[str]:
    """The folders below with a `.git` that git may look into; what would block it is removed on the way."""
    with os.scandir(within) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False), _is_plain(entry)) for entry in found]
    for name, is_folder, is_plain in entries:
        if name == ".git":
            if path and is_folder and _is_repository(within):
                yield path
            elif path:
                remove_at(within, name)
        elif is_folder:
            yield from _nested_below(within, name, f"{path}/{name}" if path else name, depth + 1)
        elif not is_plain and name in _READ_BY_GIT:
            os.unlink(name, dir_fd=within)


def _nested_below(within: int, name: str, path: str, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        remove_at(within, name)
        return
    try:
        below = open_below(within, name)
    except OSError:  # git cannot look into it either, and says so
        return
    try:
        yield from _nested(below, path, depth)
    finally:
        os.close(below)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or entry.is_file(follow_symlinks=False)


def _is_repository(within: int) -> bool:
    """Whether the folder's `.git`, a folder, is as git makes them: its HEAD is a file, and it leads nowhere else."""
    git_dir = open_below(within, ".git")
    try:
        head = os.stat("HEAD", dir_fd=git_dir, follow_symlinks=False)
        return stat.S_ISREG(head.st_mode) and "commondir" not in _names(git_dir)
    except OSError:
        return False
    finally:
        os.close(git_dir)
