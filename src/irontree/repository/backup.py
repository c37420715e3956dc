"""The log's backup on `refs/irontree/log` (R13)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from irontree.domain.timestamps import parsed, utc_text
from irontree.errors import GitFailed
from irontree.files import Disk, locked, read_bytes
from irontree.ports import BackupFailure
from irontree.repository.git import DURABLY, FETCH, STATE_FOLDER, Git, remote_failure, said

OURS = "refs/irontree/"
LOG_REF = f"{OURS}log"
KEPT = ("plans", "events", "archive", "loops", "agent-requests", "drafts", "forge")
_KEPT_PATHS = tuple(f":(top){STATE_FOLDER}/{name}" for name in KEPT)
_FORGE = f"{STATE_FOLDER}/forge/"
# All files, also where the user's checkout is a sparse one.
_AS_THEY_ARE = ("-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "core.sparseCheckout=false")
# The history of the log is the program's, and must not depend on the committer that is configured.
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "irontree"), ("EMAIL", "irontree@localhost"))
}


def back_up(git: Git, folder: Path) -> str:
    """Commit the current state, if it changed; *folder* holds our own index and its lock.

    Where the ref cannot be read, a new history begins; returns what was wrong with it, else nothing.
    """
    if not any((git.folder / STATE_FOLDER / name).is_dir() for name in KEPT):
        return ""
    with git.use(), locked(folder / "log.lock"):  # two commands may end at the same time
        index = folder / "log.index"
        Path(f"{index}.lock").unlink(missing_ok=True)
        if not index.is_file():  # git would wait for a pipe
            index.unlink(missing_ok=True)
        known, files = _newest(git), _files_as_they_are(git.folder / STATE_FOLDER)
        if known and index.is_file() and read_bytes(folder / _DONE, _DONE_BYTES) == _done(known, files):
            return ""
        if wrong := "" if known else unreadable(git):
            index.unlink(missing_ok=True)  # objects that it names may be missing, too
        try:
            tree = _write_tree(git, index)
        except GitFailed:
            index.unlink(missing_ok=True)  # perhaps cut short by a power failure; it is only a cache
            tree = _write_tree(git, index)
        if wrong:
            remove_unreadable(git)
            known = _newest(git)  # an older one that git has packed may be back
        (folder / _DONE).write_bytes(_done(_commit(git, tree, known), files))
    return wrong


_DONE = "log.done"
"""Beside the index: which files the newest commit was made of. Only a cache."""
_DONE_BYTES = 1000


def _done(newest: str, files: str) -> bytes:
    return f"{newest}\n{files}\n".encode()


def _files_as_they_are(state: Path) -> str:
    """A digest that differs once a file of the log was written, was added or is gone; their contents are not read."""
    found = hashlib.sha256()
    for name in KEPT:
        for folder, folders, files in os.walk(state / name):
            folders.sort()
            for path in (f"{folder}/{file}" for file in sorted(files)):
                with suppress(FileNotFoundError):  # of another program
                    stat = os.lstat(path)
                    facts = stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
                    found.update(os.fsencode(f"{path}\0{facts}\0"))
    return found.hexdigest()


def _newest(git: Git) -> str:
    """The newest commit of the backup and its tree; empty if there is none, or it cannot be read."""
    return git.find("log", "-1", "--format=%H %T", LOG_REF, "--") or ""


_REF_BYTES = 1000
_READABLE = re.compile(rb"(?:ref: .+|[0-9a-f]{40,64})\s*")


def unreadable(git: Git) -> str:
    """Why the backup's ref, which is there, names nothing that can be read, in words; empty if that is not so."""
    if git.repo.commit_of(LOG_REF):
        return ""
    if named := git.find("rev-parse", "--quiet", "--verify", LOG_REF):
        return "" if git.repo.find(named) or not _sees_all(git) else f"its commit {named} is missing"
    loose = git.git_dir / LOG_REF
    if not loose.is_file() or _READABLE.fullmatch(read_bytes(loose, _REF_BYTES) or b""):
        return ""
    return f"{loose} names no commit"


def _sees_all(git: Git) -> bool:
    """Whether we may read all objects: git calls those missing that another user closed to us."""
    objects = git.git_dir / "objects"
    return all(os.access(path, os.R_OK) for path in (objects, *objects.iterdir(), *objects.glob("pack/*")))


def remove_unreadable(git: Git) -> str:
    """Remove the ref if it cannot be read; returns why. An older value that git has packed comes back."""
    if wrong := unreadable(git):
        (git.git_dir / LOG_REF).unlink(missing_ok=True)
        if unreadable(git):
            git.change("update-ref", "--no-deref", "-d", LOG_REF)
    return wrong


_FAILURE_BYTES = 100_000


def write_failure(path: Path, reason: str, remedy: str) -> None:
    """Remember durably that the backup fails; the time is that of the first failure in a row."""
    known = read_failure(path)
    since = known.since if known else datetime.now(UTC)
    text = json.dumps({"since": utc_text(since), "reason": reason, "remedy": remedy})
    with suppress(OSError):  # a disk without room, which is told anyway
        Disk().put(path, text.encode())


def read_failure(path: Path) -> BackupFailure | None:
    """What was remembered; `None` if the last backup succeeded."""
    data = read_bytes(path, _FAILURE_BYTES)
    try:
        found = json.loads(data or "{}")
        return BackupFailure(parsed(found["since"]), found["reason"], found["remedy"])
    except (ValueError, KeyError, TypeError):  # not as we wrote it: the next backup tells
        return None


def _write_tree(git: Git, index: Path) -> str:
    variables = {"GIT_INDEX_FILE": str(index)}
    # Short-lived files: `run.lock` changes with our own git children.
    others = sorted(
        {"run.lock", "loops/active.lock", *(path.name for path in (git.folder / STATE_FOLDER).iterdir())}.difference(
            KEPT
        )
    )
    spared = (f":(exclude,top,literal){STATE_FOLDER}/{name}" for name in others)
    half_written = f":(exclude,top,glob){STATE_FOLDER}/**/.*"
    git.change(
        *DURABLY,
        *_AS_THEY_ARE,
        "add",
        "--force",
        "--all",
        "--",
        f":(top){STATE_FOLDER}",
        half_written,
        *spared,
        variables=variables,
    )
    return git.change(*DURABLY, "write-tree", variables=variables).splitlines()[-1]


def _commit(git: Git, tree: str, newest: str) -> str:
    """Commit the tree, unless the newest commit has it; that commit and its tree."""
    known, _, known_tree = newest.partition(" ")
    if tree == known_tree:
        return newest
    parent = ("-p", known) if known else ()
    made = git.change(*DURABLY, "commit-tree", *parent, "-m", "The state of the log", tree, variables=_AUTHOR)
    commit = made.splitlines()[-1]
    git.change(*DURABLY, "update-ref", LOG_REF, commit, known or "0" * len(tree))
    return f"{commit} {tree}"


def lost(git: Git) -> tuple[str, ...]:
    """Files that the backup ever held and that are gone, except moved streams: this program never deletes them."""
    options = ("--format=", "--name-only", "--no-renames", "--diff-filter=A", "-z")
    paths = git.repo.paths("log", *options, LOG_REF, "--", *_KEPT_PATHS, with_exceptions=False)
    issues_are_there = any((git.folder / _FORGE).glob("*/*.md"))  # labels are written anew by any command
    known = {path for path in paths if _is_truth(path) or (path.startswith(_FORGE) and not issues_are_there)}
    return tuple(sorted(path for path in known if not _is_there(git.folder, path)))


def _is_truth(path: str) -> bool:
    """Whether the file is never deleted: not an issue of the local forge, nor `loops/active.lock` in older backups."""
    return path.endswith(".yml") and not path.startswith(_FORGE)


def _is_there(root: Path, path: str) -> bool:
    if (root / path).exists():
        return True
    _, kind, stream, *rest = Path(path).parts
    archive = root / STATE_FOLDER / "archive"
    return kind == "events" and any(
        (folder / "events" / rest[-1]).exists() for folder in archive.glob(f"{stream}-rev-*") if rest
    )


def fetch(git: Git, remote: str) -> None:
    """Fetch `refs/irontree/*` from *remote*, where they were pushed; refs here are never rewound.

    Raises RemoteUnavailable, PublicationRefused.
    """
    remove_unreadable(git)  # git would refuse to fetch
    done = git.exchange(remote, FETCH, f"{OURS}*:{OURS}*")
    if not done.ok:
        raise remote_failure(f"cannot fetch {LOG_REF} from {remote}", said(done))


def _content(git: Git, blob: str) -> bytes:
    content = git.repo.content(blob)
    if content is None:
        raise GitFailed(f"the backup in {LOG_REF} lacks {blob}", remedy="look there with `git fsck`")
    return content


def versions(git: Git, paths: Sequence[str]) -> dict[str, tuple[bytes, ...]]:
    """For each of *paths* all contents that the backup ever held, newest first."""
    wanted, found = frozenset(paths), dict[str, tuple[bytes, ...]]()
    options = ("--format=", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
    with git.use():
        listed = git.repo.paths("log", *options, LOG_REF, "--", *_KEPT_PATHS)
        for entry, path in zip(listed[::2], listed[1::2], strict=True):
            if path in wanted:
                found[path] = (*found.get(path, ()), _content(git, entry.split()[3]))
    return found
