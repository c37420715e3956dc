"""The log's backup: `.mino/{plans,events,archive,loops}` as commits on `refs/irontree/log` (ruling R13)."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irontree.errors import GitFailed
from irontree.repository.git import DURABLY, Git
from irontree.repository.workspace import STATE_FOLDER

LOG_REF = "refs/irontree/log"
KEPT = ("plans", "events", "archive", "loops")
_NEVER_DELETED = ("plans", "events", "loops")
_AS_THEY_ARE = ("-c", "core.autocrlf=false", "-c", "core.safecrlf=false")
# The history of the log is the program's, and must not depend on who happens to be set up as committer.
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "irontree"), ("EMAIL", "irontree@localhost"))
}


def back_up(git: Git, folder: Path) -> None:
    """Commit the state as it is now, if it changed; *folder* is for our own index and its lock."""
    if not any((git.folder / STATE_FOLDER / name).is_dir() for name in KEPT):
        return
    with _alone(folder / "log.lock"):
        index = folder / "log.index"
        Path(f"{index}.lock").unlink(missing_ok=True)
        try:
            tree = _write_tree(git, index)
        except GitFailed:
            index.unlink(missing_ok=True)  # perhaps cut short by a power failure; it is only a cache
            tree = _write_tree(git, index)
        _commit(git, tree)


def _write_tree(git: Git, index: Path) -> str:
    variables = {"GIT_INDEX_FILE": str(index)}
    # `run.lock` comes and goes with our own git children.
    others = sorted({"run.lock", *(path.name for path in (git.folder / STATE_FOLDER).iterdir())}.difference(KEPT))
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


def _commit(git: Git, tree: str) -> None:
    found = git.find("rev-parse", LOG_REF, f"{LOG_REF}^{{tree}}")
    known, _, known_tree = (found or "").partition("\n")
    if tree == known_tree:
        return
    parent = ("-p", known) if known else ()
    made = git.change(*DURABLY, "commit-tree", *parent, "-m", "The state of the log", tree, variables=_AUTHOR)
    git.change(*DURABLY, "update-ref", LOG_REF, made.splitlines()[-1], known or "0" * len(tree))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two commands may end at the same time; the kernel frees the lock of one that was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lost(git: Git) -> tuple[str, ...]:
    """Files that the backup ever held and that are gone, archived streams excepted: nothing of ours deletes them."""
    options = ("--format=", "--name-only", "--no-renames", "--diff-filter=A", "-z")
    answer = git.ask("log", *options, LOG_REF, "--", *(f":(top){STATE_FOLDER}/{name}" for name in _NEVER_DELETED))
    # `loops/active.lock` comes and goes.
    known = {path for path in answer.stdout.decode("utf-8", "surrogateescape").split("\0") if path.endswith(".yml")}
    return tuple(sorted(path for path in known if not _is_there(git.folder, path)))


def _is_there(root: Path, path: str) -> bool:
    if (root / path).exists():
        return True
    _, kind, stream, *rest = Path(path).parts
    archive = root / STATE_FOLDER / "archive"
    return kind == "events" and any(
        (folder / "events" / rest[-1]).exists() for folder in archive.glob(f"{stream}-rev-*") if rest
    )
