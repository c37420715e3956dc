"""A small real repository with a bare remote, and git as a person would type it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.ports import Committed
from irontree.processes.children import ChildProcesses
from irontree.repository import GitRepository, open_repository
from irontree.repository.workspace import GitWorkspace
from tests.support.processes import children as new_children

PLAIN = WorkspacePolicy()


def git(folder: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def commit(folder: Path, path: str, text: str, message: str = "a change") -> str:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    git(folder, "add", "--force", "--", path)
    git(folder, "commit", "--quiet", "--message", message)
    return head(folder)


def head(folder: Path, name: str = "HEAD") -> str:
    return git(folder, "rev-parse", "--verify", name)


def hook(folder: Path, name: str, script: str) -> Path:
    """An executable shell hook in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Project:
    """A user's clone at *root* (branch main, one commit) and its bare *remote*; *cache* is where workspaces go."""

    root: Path
    remote: Path
    cache: Path
    children: ChildProcesses

    @property
    def state(self) -> Path:
        """Where what is believed goes."""
        return self.cache.with_name("state-root")

    @property
    def store(self) -> Path:
        """The private store, with the commits made in workspaces."""
        return self.state / "irontree" / self.repository.id / "store.git"

    @property
    def repository(self) -> GitRepository:
        return self.opened()

    def opened(self, start: Path | None = None, **variables: str) -> GitRepository:
        return open_repository(start or self.root, self.children, self.cache, self.state, {**os.environ, **variables})

    @property
    def target(self) -> PublishPolicy:
        return PublishPolicy(remote="origin", target_branch="main")

    @property
    def local_target(self) -> PublishPolicy:
        return PublishPolicy(remote=None, target_branch="main")

    def run_workspace(self, policy: WorkspacePolicy = PLAIN) -> GitWorkspace:
        return self.repository.workspace("run", policy)

    def work(self, base: str | None = None, *, message: str = "[run] #1: work", **files: str) -> str:
        """A commit made in the run workspace on *base* and kept, as an attempt would."""
        workspace, base = self.run_workspace(), base or head(self.root)
        workspace.prepare(base)
        write(workspace.path, **(files or {"work.txt": "done\n"}))
        made = workspace.commit(message, base=base)
        assert isinstance(made, Committed), made
        self.repository.keep(made.sha, f"refs/irontree/issue-1/{made.sha[:8]}", source=workspace)
        return made.sha

    def tip(self) -> str:
        """The user's own main."""
        return head(self.root, "main")

    def commit_here(self, path: str, text: str) -> str:
        return commit(self.root, path, text)

    def parents(self, sha: str) -> tuple[str, ...]:
        return tuple(git(self.root, "show", "--no-patch", "--format=%P", sha).split())

    def show(self, sha: str, path: str) -> str:
        done = subprocess.run(["git", "show", f"{sha}:{path}"], cwd=self.root, capture_output=True, check=True)
        return done.stdout.decode()

    def take_remote_away(self) -> None:
        """Nobody listens where it was."""
        git(self.root, "remote", "set-url", "origin", "git://127.0.0.1:1/remote.git")

    def take_back(self, policy: PublishPolicy) -> str:
        """Somebody takes the newest commit of the target back; where it is then."""
        if policy.remote:
            git(self.remote, "update-ref", "refs/heads/main", "main~")
            return head(self.remote, "main")
        git(self.root, "reset", "--quiet", "--hard", "main~")
        return self.tip()

    def begin_elsewhere(self, policy: PublishPolicy) -> str:
        """Somebody else makes the target, with a commit of theirs; its tip."""
        made = git(self.root, "commit-tree", "-p", head(self.root), "-m", "theirs", head(self.root) + "^{tree}")
        where = self.remote if policy.remote else self.root
        git(where, "fetch", "--quiet", str(self.root), f"{made}:refs/heads/{policy.target_branch}")
        return made

    def delete_branch(self, policy: PublishPolicy) -> None:
        """Somebody deletes the target where it is published."""
        git(self.remote if policy.remote else self.root, "update-ref", "-d", f"refs/heads/{policy.target_branch}")

    def delete_target(self) -> None:
        git(self.remote, "update-ref", "-d", "refs/heads/main")

    def protect_remote(self) -> None:
        """It takes nothing from now on."""
        hook(self.remote / "hooks", "pre-receive", "echo 'protected branch hook declined'; exit 1")

    def refuse_commits(self, words: str) -> None:
        """The user's hook refuses with these words."""
        hook(self.root / ".git" / "hooks", "pre-commit", f"echo '{words}'; exit 1")

    def push_from_elsewhere(self, path: str = "elsewhere.txt", text: str = "theirs\n") -> str:
        """Somebody else publishes; the new tip of the remote's main."""
        other = self.root.parent / "other"
        if not other.is_dir():
            git(self.root.parent, "clone", "--quiet", str(self.remote), str(other))
        git(other, "pull", "--quiet", "--ff-only")
        made = commit(other, path, text, "from elsewhere")
        git(other, "push", "--quiet", "origin", "HEAD:main")
        return made


def make_project(folder: Path) -> Project:
    """The user's clone, set up, and its remote in *folder*."""
    template = _template(os.environ["HOME"])
    for name in ("project", "remote.git"):
        shutil.copytree(template / name, folder / name)
    root = folder / "project"
    git(root, "status")  # the index knows the copied files by their new inodes
    with (root / ".git" / "config").open("a") as config:  # what `adopt_home` says, in a tenth of its time
        config.write(f"[irontree]\n\tid = {uuid.uuid4().hex[:12]}\n\thome = host:{root}\n")
    return Project(root, folder / "remote.git", folder / "cache-root", new_children())


@cache
def _template(home: str) -> Path:
    """Both, made once for each home, which goes with the tests: a copy takes a tenth of the time."""
    folder = Path(tempfile.mkdtemp(prefix="template-", dir=home))
    root = folder / "project"
    git(folder, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "remote.git")
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main", "project")
    write(root, **{"app.py": "print('hello')\n", ".gitignore": "cache/\n*.log\n.env\n.mino/\n"})
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "remote", "add", "origin", "../remote.git")
    git(root, "push", "--quiet", "--set-upstream", "origin", "main")
    return folder


def everything(root: Path) -> dict[str, object]:
    """All that an agent must not touch in a user's repository."""
    common = Path(git(root, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    return {
        "refs": git(root, "for-each-ref"),
        "head": (common / "HEAD").read_text(),
        "stash": git(root, "stash", "list"),
        "status": git(root, "status", "--porcelain", "--ignored"),
        "config": (common / "config").read_text(),
        "hooks": {path.name: path.read_bytes() for path in (common / "hooks").glob("*")},
        "files": {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()},
    }
