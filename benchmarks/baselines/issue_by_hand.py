"""One issue from published to done, by hand: what `bar_a_issue` is compared with.

Does: the same git commands that change anything (fetch of the base, two private clones without a remote, checkouts,
cleans, reset, add, commit, the fetch that keeps the commit under its ref, push, fast-forward, and at the end the backup
of the log by plumbing), with the same `core.fsync`; the agent and the check as child processes; the same 14 durable
writes (file synced, renamed, folder synced), in the same order and of the same size.

Does not: look at the repository's state, settings, branches or worktrees; replay a log, decide, validate, render,
hold locks, record its children or kill what they leave; write what is not durable (brief, report, transcript, cursor);
survive a crash. It reads from git only what its next command needs.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

EVENT_BYTES, LOOP_BYTES, ISSUE_BYTES, RESULTS_BYTES = 670, 750, 640, 480
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
_DURABLY = ("-c", "core.fsync=committed,reference")
_FETCH = (*_DURABLY, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-prune")
_KEPT = (".mino/plans", ".mino/events", ".mino/loops", ".mino/forge")


@dataclass(frozen=True)
class Place:
    """The user's clone at *root*, a folder for the private clones, and the file of the loop."""

    root: Path
    cache: Path
    loop: Path
    agent: str
    check: str

    @property
    def state(self) -> Path:
        """Where the log is."""
        return self.root / ".mino"


def drive(place: Place) -> None:
    """Run, verify and finish issue 1."""
    verify(place, run(place))
    finish(place)
    back_up(place)


def run(place: Place) -> str:
    """The attempt: fetch, clone, agent, commit, keep; the commit."""
    write_durably(place.loop, LOOP_BYTES)
    git(place.root, *_FETCH, "origin", "+refs/heads/main:refs/remotes/origin/main")
    base = git(place.root, "rev-parse", "refs/remotes/origin/main")
    write_event(place, "0002-run-started")
    workspace = private_clone(place, "run", base)
    subprocess.run(["sh", "-c", place.agent], cwd=workspace, check=True, stdout=subprocess.PIPE)
    git(workspace, "reset", "--quiet", base)
    git(workspace, *_DURABLY, "add", "--all")
    git(workspace, *_DURABLY, "commit", "--quiet", "--cleanup=whitespace", "--file=-", stdin="[run] #1: by hand\n")
    sha = git(workspace, "rev-parse", "HEAD")
    git(place.root, *_FETCH, str(workspace), f"{sha}:refs/irontree/issue-1/2")
    write_event(place, "0003-run-completed")
    follow_up(place)
    return sha


def verify(place: Place, sha: str) -> None:
    """The check at exactly that commit, its result stored, the commit published."""
    write_durably(place.loop, LOOP_BYTES)
    workspace = private_clone(place, "verify", sha)
    subprocess.run(["sh", "-c", place.check], cwd=workspace, check=True, stdout=subprocess.PIPE)
    write_durably(place.state / "reports" / "issue-1" / f"{sha}.yml", RESULTS_BYTES)
    git(place.root, "push", "--porcelain", "--no-follow-tags", "origin", f"{sha}:refs/heads/main")
    git(place.root, "merge", "--quiet", "--ff-only", sha)
    write_event(place, "0004-verify-passed")
    follow_up(place)


def finish(place: Place) -> None:
    """The last event."""
    write_durably(place.loop, LOOP_BYTES)
    write_event(place, "0005-checkup-done")
    follow_up(place)


def follow_up(place: Place) -> None:
    """After each step: the loop, and the issue's labels."""
    write_durably(place.loop, LOOP_BYTES)
    write_durably(place.state / "forge" / "issues" / "0001.md", ISSUE_BYTES)


def private_clone(place: Place, name: str, commit: str) -> Path:
    """A clone that shares objects, has no remote and no branch, and stands at *commit*."""
    folder = place.cache / name
    git(place.root, "clone", "--quiet", "--shared", "--no-checkout", "--template=", str(place.root), str(folder))
    git(folder, "remote", "remove", "origin")
    git(folder, "update-ref", "--no-deref", "-d", "refs/heads/main")
    git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    git(folder, "clean", "-ffdq")
    return folder


def back_up(place: Place) -> None:
    """Commit the log to its ref with an index of its own."""
    index = {"GIT_INDEX_FILE": str(place.cache / "log.index")}
    git(place.root, *_DURABLY, "add", "--force", "--all", "--", *_KEPT, variables=index)
    tree = git(place.root, *_DURABLY, "write-tree", variables=index)
    parent = git(place.root, "rev-parse", "refs/irontree/log")
    made = git(place.root, *_DURABLY, "commit-tree", "-p", parent, "-m", "The state of the log", tree)
    git(place.root, *_DURABLY, "update-ref", "refs/irontree/log", made, parent)


def write_event(place: Place, name: str) -> None:
    """One file of the log."""
    write_durably(place.state / "events" / "issue-1" / f"{name}.yml", EVENT_BYTES)


def write_durably(path: Path, size: int) -> None:
    """*size* bytes that differ from file to file: temporary, sync, rename, sync of the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(os.urandom(size // 2).hex().encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def git(folder: Path, *words: str, stdin: str = "", variables: dict[str, str] | None = None) -> str:
    """What git prints; raises CalledProcessError unless it ends with 0."""
    environment = {**os.environ, **(variables or {})}
    command = ["git", *_QUIET, *words]
    done = subprocess.run(command, cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout.strip()
