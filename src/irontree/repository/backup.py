"""The log's backup: `.mino/{plans,events,archive,loops}` as commits on `refs/irontree/log` (ruling R13)."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irontree.errors import GitFailed
from irontree.repository.git import DURABLY, Git

LOG_REF = "refs/irontree/log"
KEPT = ("plans", "events", "archive", "loops")
_STATE = ".mino"
_AS_THEY_ARE = ("-c", "core.autocrlf=false", "-c", "core.safecrlf=false")
# The history of the log is the program's, and must not depend on who happens to be set up as committer.
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "irontree"), ("EMAIL", "irontree@localhost"))
}


def back_up(git: Git, folder: Path) -> None:
    """Commit the state as it is now, if it changed; *folder* is for our own index and its lock."""
    if not any((git.folder / _STATE / name).is_dir() for name in KEPT):
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
    others = sorted({"run.lock", *(path.name for path in (git.folder / _STATE).iterdir())}.difference(KEPT))
    spared = (f":(exclude,top,literal){_STATE}/{name}" for name in others)
    half_written = f":(exclude,top,glob){_STATE}/**/.*"
    git.change(
        *DURABLY,
        *_AS_THEY_ARE,
        "add",
        "--force",
        "--all",
        "--",
        f":(top){_STATE}",
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
