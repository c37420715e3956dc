"""Locks of a git that was killed: ours are recognised and removed, anybody else's are left and named (R3).

A lock file of git does not say whose it is. So each command of ours that takes locks in the user's repository is noted
before it begins, in a file that stays locked while we live. If the note is there and its lock is free, we died in
the middle: what that command can have locked since then is ours, unless a living git works in the repository.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from irontree.errors import EnvironmentRefused
from irontree.files import disk_errors, is_held, open_lock, read_bytes, take_lock
from irontree.processes.family import is_at_work, opened

_CLOCKS_DIFFER: Final = 2.0
"""Seconds by which a file system's clock may be behind ours."""
_NOTE_BYTES: Final = 64 * 1024
_LOCKED_SECONDS: Final = 3.0
"""A note is locked by then: one that is not is a dead program's."""
STANDING_SECONDS: Final = 60.0
"""From this age on a lock without a living git counts as left behind."""

_REFS, _MOVES = ("refs",), ("index", "HEAD", "ORIG_HEAD", "refs")
_TAKES: Final = {
    "config": ("config",),
    "push": _REFS,
    "fetch": (*_REFS, "packed-refs", "shallow"),
    "update-ref": (*_REFS, "HEAD", "packed-refs"),
    "merge": _MOVES,
    "switch": _MOVES,
    "update-index": ("index",),
    "checkout-index": ("index",),
    "add": (),
    "write-tree": (),
    "commit-tree": (),
}
"""What each command of ours may lock: files in a git folder, or anything below `refs/`.

Those without locks write objects, which a kill leaves half written; so may all others.
"""
_OURS: Final = "refs/irontree/"
_WITHOUT_LOCKS: Final = frozenset(
    {
        *("cat-file", "fsmonitor--daemon", "credential-cache--daemon"),
        *("blame", "diff", "grep", "help", "log", "shortlog", "show", "status"),
    }
)
"""Commands that may live long, in a pager for one, and hold no lock then. What they hold for a moment is open."""
_WITH_VALUE: Final = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
"""Options of git itself whose value is the next word."""


class Locks(Protocol):
    """The locks in one git folder, as the runner of git sees them."""

    def during(self, command: str, git_dir: Path) -> AbstractContextManager[Callable[[], None]]:
        """Note that *command* is at work; what this gives is called when git has ended by itself."""

    def clear(self, standing: str = "") -> Collection[Path]:
        """Remove those that a git of ours left; returns them. *standing* is one that was in the way."""


class StandingLock(NamedTuple):
    """A lock that nobody seems to hold, and that is not known to be ours."""

    path: Path
    seconds: float


@dataclass(frozen=True, slots=True)
class UsersLocks:
    """Those in the user's repository at *common_dir*; *root* is its worktree. *note* is told what was removed."""

    root: Path
    common_dir: Path
    note: Callable[[str], None]

    @contextmanager
    def during(self, command: str, git_dir: Path) -> Iterator[Callable[[], None]]:
        """Note the command, if it takes locks or writes objects. A git that was killed leaves the note for `clear`."""
        path = self._notes / f"git-{uuid4().hex}.json"  # of no process id: containers repeat them
        with ExitStack() as stack:
            if command in _TAKES:
                with disk_errors(self._notes):
                    about = {"command": command, "git_dir": str(git_dir), "since": time.time()}
                    stack.enter_context(_written_locked(path, json.dumps(about)))
            yield partial(path.unlink, missing_ok=True)

    def clear(self, standing: str = "") -> Collection[Path]:
        """Remove what dead commands of ours left, and *standing* if it is a lock of a ref that only we write.

        Returns what was removed. Raises EnvironmentRefused if a file cannot be removed.
        """
        with disk_errors(self.common_dir):
            self._remove_half_written()
            notes = [note for path in self._paths() if (note := _abandoned(path))]
            ours = {Path(standing)} if standing and self._is_ours(Path(standing)) else set[Path]()
            if not (notes or ours) or self._is_worked_in(hidden_works=True):
                return ()
            found = {path for note in notes for path in self._left_by(note)} | ours
            left = sorted(found - opened(found))  # by a program with another name, such as an editor's own git
            for path in left:
                path.unlink(missing_ok=True)
                self.note(f"removed {path}: a git command of this program was killed and left it")
            for note in notes:
                note.path.unlink(missing_ok=True)
            return left

    def standing(self) -> tuple[StandingLock, ...]:
        """Locks older than a minute while no git is at work here: nobody will remove them."""
        now, found = time.time(), list[StandingLock]()
        here = self.common_dir
        for path in (*here.glob("*.lock"), *here.glob("worktrees/*/*.lock"), *(here / "refs").rglob("*.lock")):
            with suppress(OSError):
                found.append(StandingLock(path, now - path.stat().st_mtime))
        old = tuple(lock for lock in found if lock.seconds > STANDING_SECONDS)
        return () if not old or self._is_worked_in() else old

    def _is_worked_in(self, *, hidden_works: bool = False) -> bool:
        """Whether a git lives in any worktree of the repository: what is locked may be its own.

        *hidden_works* says whether one counts that does not show where it works.
        """
        linked = (os.fsdecode(path.read_bytes()).strip() for path in self.common_dir.glob("worktrees/*/gitdir"))
        folders = (self.root, self.common_dir, *(Path(path).parent for path in linked))
        return is_at_work("git", folders, _takes_no_locks, hidden_works=hidden_works)

    @property
    def _notes(self) -> Path:
        return self.common_dir / "irontree"

    def _paths(self) -> tuple[Path, ...]:
        return tuple(self._notes.glob("*-*.json"))

    def _remove_half_written(self) -> None:
        """Remove notes of programs that were killed before their note had its name."""
        for path in self._notes.glob("git-*.tmp"):
            if not _is_younger(path, time.time() - _LOCKED_SECONDS) and not _may_live(path):
                path.unlink(missing_ok=True)

    def _is_ours(self, path: Path) -> bool:
        """Whether the program alone writes that ref, and the lock is no other command's of ours that lives."""
        inside = path.is_relative_to(self.common_dir) and path.relative_to(self.common_dir).as_posix()
        return bool(inside) and str(inside).startswith(_OURS) and not any(map(_may_live, self._paths()))

    def _left_by(self, note: _Note) -> Iterator[Path]:
        for folder in {note.git_dir, self.common_dir}:
            for path in _locks(folder, _TAKES[note.command]):
                if _is_younger(path, note.since):
                    yield path
        for path in (self.common_dir / "objects").glob("*/tmp_*"):  # a half-written object or pack
            if _is_younger(path, note.since):
                yield path


@dataclass(frozen=True, slots=True)
class PrivateLocks:
    """Those of our own repositories and indexes in *folder*, where nobody but us works."""

    folder: Path

    def during(
        self,
        command: str,  # noqa: ARG002 - all are ours
        git_dir: Path,  # noqa: ARG002 - the same
    ) -> AbstractContextManager[Callable[[], None]]:
        """Nothing has to be noted."""
        return nullcontext(_nothing)

    def clear(self, standing: str = "") -> Collection[Path]:  # noqa: ARG002 - all are ours
        """Remove them all."""
        found = tuple(self._found())
        for path in found:
            path.unlink(missing_ok=True)
        return found

    def _found(self) -> Iterator[Path]:
        yield from self.folder.glob("*.index.lock")
        for git_dir in self.folder.glob("*.git"):
            yield from git_dir.glob("*.lock")
            yield from (git_dir / "refs").rglob("*.lock")


def _takes_no_locks(argv: Sequence[str]) -> bool:
    """Whether the command line is that of a git command that lives without locks; an alias may stand for any."""
    program, *words = argv or ("",)
    if (name := Path(program).name.removeprefix("git-")) in _WITHOUT_LOCKS:
        return True
    given = iter(words)
    for word in given:
        if word in _WITH_VALUE:
            next(given, None)
        elif not word.startswith("-"):
            return name == "git" and word in _WITHOUT_LOCKS
    return False


def _nothing() -> None:
    pass


class _Note(NamedTuple):
    path: Path
    command: str
    git_dir: Path
    since: float


@contextmanager
def _written_locked(path: Path, text: str) -> Iterator[None]:
    """Write the note, locked for the block; it gets its name last, for a free lock means that we are dead."""
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w", encoding="utf-8", opener=open_lock) as file:
        take_lock(file.fileno())
        file.write(text)
        file.flush()
        temporary.replace(path)
        yield


def _may_live(path: Path) -> bool:
    """Whether the program that wrote the note lives; a note that cannot be opened may be another user's."""
    try:
        return is_held(path)
    except OSError:
        return True


def _abandoned(path: Path) -> _Note | None:
    """The note of a command whose program is dead; `None` if it lives, has just ended, or the note is none of ours."""
    if _may_live(path):
        return None
    try:
        data = read_bytes(path, _NOTE_BYTES)
        if data is None:
            return None
        found = json.loads(data)
        note = _Note(path, str(found["command"]), Path(found["git_dir"]).resolve(), float(found["since"]))
    except EnvironmentRefused:  # a folder
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        note = None
    # A note tells what to delete: one that this program does not write is followed nowhere.
    if note and note.command in _TAKES and note.git_dir.is_relative_to(path.parent.parent.resolve()):
        return note
    path.unlink(missing_ok=True)
    return None


def _is_younger(path: Path, since: float) -> bool:
    """Whether the file is there, and was written after that time."""
    try:
        return path.stat().st_mtime >= since - _CLOCKS_DIFFER
    except OSError:
        return False


def _locks(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        yield from (folder / name).rglob("*.lock") if name == "refs" else (folder / f"{name}.lock",)
