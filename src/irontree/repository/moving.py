"""The fast-forward of the user's checkout, which a kill can cut off anywhere (R5).

Git writes the files first, then the index, then the branch, and none of it is undone when it is killed. So what is
going to be moved is written down durably before. Whoever comes next tells by content what git wrote from what the user
did meanwhile: a move that is cut off is finished if nothing of the user's is in its way, and else undone. Bytes that
are in neither of the two commits are never touched.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from irontree.domain.text import few, shell_word
from irontree.errors import EnvironmentRefused, GitFailed
from irontree.files import Disk, ScratchFolder, disk_errors, is_abandoned, read_bytes
from irontree.repository.checkout import InTheWay, changed_paths, in_the_way
from irontree.repository.git import AGAIN_SECONDS, NO_HOOKS, Git, lock_in_the_way, said, shown, was_killed
from irontree.repository.hooks import hooks_folder

Settled = Literal["finished", "undone", "left"]
"""`left`: the user has moved on meanwhile, or nothing was moved yet."""

_RECORD_BYTES: Final = 1_000_000
_BATCH: Final = 500
_INDEX_LOCK: Final = "index.lock"
_LINK, _SUBMODULE = "120000", "160000"
_PLAIN: Final = ("100644", "100755")
_UNCHANGED: Final = re.compile(
    r"would be (overwritten|removed)|would lose untracked files|not uptodate|not possible to fast-forward"
    r"|not concluded your|unmerged files|unresolved conflict|index\.lock': File exists",
    re.IGNORECASE,
)
"""How git refuses before its first change. Behind it, it may fail in any words, those of a filter too."""
_FORWARD: Final = ("--quiet", "--ff-only", "--no-squash", "--no-overwrite-ignore")
"""Git would write over ignored files, and the user's `branch.*.mergeOptions` may ask it not to move the branch."""
_REFUSING: Final = ("reference-transaction", "post-index-change")
"""Hooks of the user's that see what git does to the repository, and may refuse it."""
_SHA: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DISK: Final = Disk()


class Move(NamedTuple):
    """What is going to be moved: the checkout of *branch* at *worktree*, from *before* to *after*."""

    worktree: str
    branch: str
    before: str
    after: str
    is_settling: bool = False
    """Whether it was found cut off, and files are being brought to one side: that may be cut off as well."""
    leaves: str = ""
    """The branch, or commit, that is left for *branch*, if the checkout is switched and no file of it changes."""


def _is_ours(move: Move) -> bool:
    """Whether it names what this program writes down: git would take other words for options."""
    is_named = move.branch.startswith("refs/heads/") and "\n" not in move.branch and "\0" not in move.worktree
    return is_named and bool(_SHA.fullmatch(move.before) and _SHA.fullmatch(move.after))


class _Entry(NamedTuple):
    """A file as a commit or the index has it: its mode in octal, and its blob."""

    mode: str
    blob: str


_ABSENT: Final = _Entry("0", "")


class _Change(NamedTuple):
    path: str
    before: _Entry
    after: _Entry


@dataclass(frozen=True, slots=True)
class Moving:
    """Moves checkouts of the repository of *git*, whose git folder is *common_dir*; records one move at most."""

    git: Git
    common_dir: Path
    note: Callable[[str], None]

    @property
    def record(self) -> Path:
        """The file with the move that is under way."""
        return self.common_dir / "irontree" / "move.json"

    def fast_forward(self, worktree: Path, branch: str, sha: str) -> InTheWay | None:
        """Move *branch*, checked out at *worktree*, ahead to *sha*; returns why it stays, or `None`."""
        there = self.git.at(worktree)
        try:
            self.settle()
            before = self.git.repo.commit_of(branch)
            if before is None or self.git.repo.contains(before, sha):
                return None
            if found := in_the_way(there, before, sha):
                return found
            move = Move(str(worktree), branch, before, sha)
            refused = self._merge(there, move)
            self.record.unlink(missing_ok=True)
        except EnvironmentRefused as error:  # what was recorded is settled later
            refused = (error.output.strip() if isinstance(error, GitFailed) else "") or error.message
        if refused is None:
            return None
        return InTheWay(refused, "put that right", is_failure=not _UNCHANGED.search(refused))

    def _merge(self, there: Git, move: Move) -> str | None:
        refused = ""
        for pause in (0.0, *AGAIN_SECONDS):
            time.sleep(pause)
            if not _stands_on(there, move.branch):  # git would move the branch that the user has switched to
                return f"{move.branch.removeprefix('refs/heads/')} is no longer checked out in {there.folder}"
            self._write(move)  # anew, if it was settled between two tries
            with self._hooks_that_refuse() as hooks:
                done = there.run(*hooks, "-c", "merge.autoStash=false", "merge", *_FORWARD, move.after)
            killed, refused = was_killed(done), said(done).strip()
            if not done.ok and not _UNCHANGED.search(refused):
                self._settled(ahead=killed or done.ended != "exited", is_sure=True)
            tip = self.git.repo.commit_of(move.branch)
            if tip and self.git.repo.contains(tip, move.after):
                return None
            if not killed and not lock_in_the_way(refused):
                break
        return refused or f"git moved what was checked out in {there.folder} meanwhile"

    @contextmanager
    def _hooks_that_refuse(self) -> Iterator[tuple[str, ...]]:
        """Words that leave `post-merge` out, which would run what an agent has published, such as an install script."""
        users = hooks_folder(self.git.repo.settings, self.common_dir)
        if users is None or self.git.hooks_are_files:
            yield ()
            return
        refusing = [users / name for name in _REFUSING if os.access(users / name, os.X_OK)]
        if not refusing:
            yield NO_HOOKS
            return
        with disk_errors(Path(tempfile.gettempdir())), ScratchFolder("hooks") as scratch:
            for hook in refusing:
                own = scratch.path / hook.name
                own.write_text(f'#!/bin/sh\nexec {shell_word(str(hook))} "$@"\n', encoding="utf-8")
                own.chmod(0o700)
            yield ("-c", f"core.hooksPath={scratch.path}")

    def switch(self, branch: str, start: str) -> str | None:
        """Put the checkout, which is at commit *start*, on *branch*, made there; returns why it stays, or `None`."""
        there, name = self.git, f"refs/heads/{branch}"
        try:
            self.settle()
            if _stands_on(there, name):
                return None
            tip = there.repo.commit_of(name)
            if tip not in (None, start):
                return f"there is a branch {branch} already, at {str(tip)[:12]}"
            if found := in_the_way(there, start, start):
                return found.what
            leaves = there.find("symbolic-ref", "--quiet", "HEAD") or start
            refused = self._switch(Move(str(there.folder), name, start, start, leaves=leaves))
            self.record.unlink(missing_ok=True)
        except EnvironmentRefused as error:  # what was recorded is settled later
            return (error.output.strip() if isinstance(error, GitFailed) else "") or error.message
        return refused

    def _switch(self, move: Move) -> str | None:
        """Make the branch and put the checkout on it, or only that if the branch was made; returns why it stays."""
        self._write(move)
        refused, branch = "", move.branch.removeprefix("refs/heads/")
        for _ in range(2):  # git may be killed behind the branch
            if _stands_on(self.git, move.branch):
                return None
            is_made = self.git.repo.commit_of(move.branch) is not None
            words = (branch,) if is_made else ("--no-track", "--create", branch, move.after)
            with self._hooks_that_refuse() as hooks:
                refused = said(self.git.run(*hooks, "switch", "--quiet", *words)).strip()
        return None if _stands_on(self.git, move.branch) else refused or "git did not switch"

    def _finish_switch(self, move: Move) -> Settled:
        """Finish a switch that was cut off, if the checkout is still where it was."""
        repo = self.git.repo
        is_there, tip = _stands_on(self.git, move.branch), repo.commit_of(move.branch)
        if is_there:
            return "finished"
        is_left = repo.stands_at(move.leaves) and repo.commit_of("HEAD") == move.after
        if not is_left or tip not in (None, move.after) or self._switch(move) is not None:
            return "left"
        self.note(
            f"your checkout was being put on {move.branch.removeprefix('refs/heads/')} when that was cut off: done"
        )
        return "finished"

    def pending(self) -> Move | None:
        """The move that was cut off, or `None`."""
        data = read_bytes(self.record, _RECORD_BYTES)
        try:
            move = Move(**json.loads(data)) if data else None
            return move if move and _is_ours(move) else None
        except (ValueError, TypeError, AttributeError, RecursionError):  # written by a later version, or by hand
            return None

    def settle(self, freed: Collection[Path] = ()) -> None:
        """Finish or undo the move that was cut off, if there is one. Raises EnvironmentRefused if that fails.

        *freed* are the locks that a killed git had left until now: one of the index proves that git was at work.
        """
        for path in self.record.parent.glob(f".{self.record.name}.*"):  # killed before the record was whole
            if is_abandoned(path.name):
                path.unlink(missing_ok=True)
        if self.record.exists():
            self._settled(ahead=True, is_sure=any(path.name == _INDEX_LOCK for path in freed))
            self.record.unlink(missing_ok=True)

    def _settled(self, *, ahead: bool, is_sure: bool) -> Settled:
        move = self.pending()
        if move is None or not Path(move.worktree).is_dir():
            return "left"
        if move.leaves:
            return self._finish_switch(move)
        there, tip = self.git.at(Path(move.worktree)), self.git.repo.commit_of(move.branch)
        is_elsewhere = tip != move.before or not _stands_on(there, move.branch)
        if tip and self.git.repo.contains(tip, move.after):
            return "finished"
        if is_elsewhere and not self.git.repo.contains(move.after, move.before):  # collected meanwhile
            return "left"
        with there.use(), disk_errors(there.folder):
            is_sure = is_sure or (there.git_dir / _INDEX_LOCK).exists()  # somebody's: then nothing can be written
            cut_off = _CutOff(there, move, is_sure=is_sure)
            if is_elsewhere:
                cut_off.tell_what_is_left(self.note)
                return "left"
            if not cut_off.has_begun:
                return "left"
            self._write(move._replace(is_settling=True))
            return cut_off.settle(self.note, ahead=ahead)

    def _write(self, move: Move) -> None:
        _DISK.write_durably(self.record, json.dumps(move._asdict()).encode())


def _stands_on(there: Git, branch: str) -> bool:
    return there.repo.stands_at(branch) or there.find("symbolic-ref", "--quiet", "HEAD") == branch


class _CutOff:
    """A move whose branch is still where it was; what stands in files and index is compared with both commits."""

    def __init__(self, git: Git, move: Move, *, is_sure: bool) -> None:
        """*is_sure* says whether git is known to have been at work, without a look at what it wrote."""
        self._git, self._move = git, move
        self._changes = tuple(_changes(git, move))
        self._paths = {change.path for change in self._changes}
        self._index, self._skipped = _index(git)
        self._hashes = _hashes(git, [change.path for change in self._changes])
        self._has_modes = git.repo.settings.get("core.filemode") != "false"
        is_sure = is_sure or move.is_settling
        # Git has written all files before it writes the index: what is missing then, or short, the user made so.
        has_index = all(change.after == self._indexed(change) for change in self._changes)
        self._may_be_half = move.is_settling or (not has_index and (is_sure or any(map(self._is_new, self._changes))))
        self.has_begun = any(map(self._is_moved, self._changes))

    def settle(self, note: Callable[[str], None], *, ahead: bool) -> Settled:
        """Bring all of it to one side: forward if *ahead* and nothing of the user's is in the way."""
        theirs = [change.path for change in self._changes if self._is_theirs(change)]
        ahead = ahead and not theirs
        branch = self._move.branch.removeprefix("refs/heads/")
        cut_off = f"the fast-forward of your checkout of {branch} in {self._git.folder} was cut off"
        if not ahead:
            self._bring({change: change.before for change in self._changes})
            kept = f"; left as they are, because they are yours: {', '.join(map(shown, theirs[:5]))}" if theirs else ""
            note(f"{cut_off}: put back to {self._move.before[:12]}{kept}")
            return "undone"
        self._bring({change: change.after for change in self._changes})
        self._git.change(
            *("update-ref", "-m", f"merge {self._move.after}: Fast-forward"),
            *(self._move.branch, self._move.after, self._move.before),
        )
        note(f"{cut_off}: finished, it is at {self._move.after[:12]}")
        return "finished"

    def tell_what_is_left(self, note: Callable[[str], None]) -> None:
        """Name the files that git wrote, in no commit of what the user has checked out or committed since."""
        moved = {change.path for change in self._changes if self._is_moved(change)}
        if left := [path for path in changed_paths(self._git) if path in moved]:
            name, files = self._move.branch.removeprefix("refs/heads/"), few(list(map(shown, left)))
            note(
                f"the fast-forward of {name} to {self._move.after[:12]} in {self._git.folder} was cut off, "
                f"and you have gone on since; the changes in {files} are its own: take back what you do not want"
            )

    def _is_new(self, change: _Change) -> bool:
        """Whether the whole new file stands there, which nobody but git has written."""
        if change.after == _ABSENT or change.after.mode == _SUBMODULE or self._is_left_out(change.path):
            return False
        return self._stands(change.path, change.after) and not self._stands(change.path, change.before)

    def _is_moved(self, change: _Change) -> bool:
        """Whether git has moved the file or what is staged of it. That one is gone or short proves nothing alone."""
        if change.after == self._indexed(change) or self._is_new(change):
            return True
        return self._may_be_half and not self._stands(change.path, change.before) and self._is_gits(change)

    def _is_left_out(self, path: str) -> bool:
        """Whether a sparse checkout has the file in the index alone."""
        return path in self._skipped and _mode(self._git.folder / path) is None

    def _indexed(self, change: _Change) -> _Entry:
        return self._index.get(change.path, _ABSENT)

    def _is_theirs(self, change: _Change) -> bool:
        """Whether the user changed the file, or what is staged of it, since."""
        return self._indexed(change) not in (change.before, change.after) or not self._is_gits(change)

    def _is_gits(self, change: _Change) -> bool:
        """Whether the file is as one of the commits has it, or as git leaves it in the middle of writing it."""
        sides = (change.before, change.after)
        stands = any(self._stands(change.path, side) for side in sides)
        if _mode(self._git.folder / change.path) is None:
            is_submodule = _SUBMODULE in (change.before.mode, change.after.mode)
            return is_submodule or ((stands or self._may_be_half) and self._is_free(change.path))
        written = sides if self._move.is_settling else (change.after,)  # only a move that is undone writes old files
        return stands or (self._may_be_half and any(self._is_begun(change.path, side) for side in written))

    def _stands(self, path: str, side: _Entry) -> bool:
        """Whether the worktree has *path* as *side* does, by git's conversions or byte for byte."""
        if side.mode == _SUBMODULE or self._is_left_out(path):
            return True  # a fast-forward leaves the files of a submodule alone, and those that are not wanted here
        there = self._git.folder / path
        mode = _mode(there)
        if side == _ABSENT or mode is None:
            return side == _ABSENT and mode is None
        if _LINK in (mode, side.mode):
            return mode == side.mode and os.fsencode(there.readlink()) == self._git.repo.content(side.blob)
        return (mode == side.mode or not self._has_modes) and side.blob in self._hashes.get(path, ())

    def _is_begun(self, path: str, side: _Entry) -> bool:
        """Whether the file holds only the beginning of what *side* has."""
        there = self._git.folder / path
        if _mode(there) == _LINK or side.mode not in _PLAIN:
            return False
        converted = self._git.ask("cat-file", "--filters", f"--path={path}", side.blob)
        whole = (self._git.repo.content(side.blob), converted.stdout if converted.exit_code == 0 else None)
        found = there.read_bytes()
        return any(full is not None and len(found) < len(full) and full.startswith(found) for full in whole)

    def _is_free(self, path: str) -> bool:
        """Whether nothing but what this move changes stands where *path* is missing: no folder, no file above it."""
        there = self._git.folder / path
        if there.is_dir():
            inside = (found for found in there.rglob("*") if found.is_symlink() or not found.is_dir())
            return all(found.relative_to(self._git.folder).as_posix() in self._paths for found in inside)
        above = [folder for folder in Path(path).parents if os.path.lexists(self._git.folder / folder)]
        nearest = self._git.folder / above[0]
        return (nearest.is_dir() and not nearest.is_symlink()) or above[0].as_posix() in self._paths

    def _bring(self, goals: Mapping[_Change, _Entry]) -> None:
        """Put index and files there, in this order, as git does; what is the user's stays."""
        ours = [change for change in goals if self._indexed(change) in (change.before, change.after)]
        staged = [change for change in ours if self._indexed(change) != goals[change]]
        files = [change for change in ours if self._is_gits(change) and not self._stands(change.path, goals[change])]
        # What goes comes first: a file may take the place of a folder, or the other way round.
        staged.sort(key=lambda change: goals[change] != _ABSENT)
        if staged:
            nothing = "0" * len(self._move.before)
            lines = (f"{goals[c].mode} {goals[c].blob or nothing}\t{c.path}" for c in staged)
            self._git.change("update-index", "-z", "--index-info", stdin=_joined(lines))
        # Git forgets the mark of an entry that it is given anew.
        skipped = [c.path for c in staged if goals[c] != _ABSENT and self._is_left_out(c.path)]
        if skipped:
            self._git.change("update-index", "-z", "--skip-worktree", "--stdin", stdin=_joined(skipped))
        for change in files:
            if goals[change] == _ABSENT:
                _remove(self._git.folder, change.path)
        wanted = [change.path for change in files if goals[change] != _ABSENT]
        if wanted:
            self._git.change("checkout-index", "--force", "--index", "-z", "--stdin", stdin=_joined(wanted))


def _joined(lines: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(line) + b"\0" for line in lines)


def _changes(git: Git, move: Move) -> Iterator[_Change]:
    words = ("-r", "--raw", "--no-abbrev", "--no-renames", "-z", move.before, move.after)
    found = git.repo.paths("diff-tree", *words)
    for about, path in zip(found[::2], found[1::2], strict=True):
        old, new, before, after, _ = about.removeprefix(":").split(" ")
        yield _Change(path, _entry(old, before), _entry(new, after))


def _entry(mode: str, blob: str) -> _Entry:
    return _ABSENT if mode == "000000" else _Entry(mode, blob)


def _index(git: Git) -> tuple[dict[str, _Entry], frozenset[str]]:
    """What is staged, by path, and which of it the worktree is not to have.

    Of a path with conflicts it is nothing that a commit could have.
    """
    found, skipped = dict[str, _Entry](), set[str]()
    for line in git.repo.paths("ls-files", "-t", "--stage", "-z"):
        about, _, path = line.partition("\t")
        tag, mode, blob, stage = about.split(" ")
        found[path] = _Entry(mode, blob if stage == "0" else "conflict")
        if tag == "S":
            skipped.add(path)
    return found, frozenset(skipped)


def _hashes(git: Git, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The blobs that git would make of the plain files among *paths*: by its conversions, and without any."""
    plain = [path for path in paths if _mode(git.folder / path) in _PLAIN]
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(plain), _BATCH):
        batch = plain[start : start + _BATCH]
        words = ("-c", "core.safecrlf=false", "hash-object")
        ways = (git.read(*words, *raw, "--", *batch).decode().split() for raw in ((), ("--no-filters",)))
        found |= dict(zip(batch, zip(*ways, strict=True), strict=True))
    return found


def _mode(path: Path) -> str | None:
    """The mode by which git would know what stands at *path*; `None` for nothing, or a folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return _LINK
        if not stat.S_ISDIR(mode):
            return "100755" if mode & stat.S_IXUSR else "100644"
    return None


def _remove(root: Path, path: str) -> None:
    """Remove the file, and the folders that become empty by it."""
    (root / path).unlink(missing_ok=True)
    for folder in (root / path).parents:
        if folder == root:
            return
        try:
            folder.rmdir()
        except OSError:
            return
