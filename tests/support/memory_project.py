"""The small repository of `repositories.py` without git, by the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from irontree.domain.plan import PublishPolicy
from irontree.errors import PublicationRefused, RemoteUnavailable
from irontree.ports import Committed
from irontree.repository.memory import Commit, MemoryRepository
from tests.support.repositories import PLAIN, write


def push_from_elsewhere(repository: MemoryRepository, changes: Mapping[str, bytes], branch: str = "main") -> str:
    """A push of *changes* by another user; the remote branch's new tip."""
    tip = repository.remote[branch]
    files = {**repository.commits[tip].files, **changes}
    repository.remote[branch] = repository.add(Commit(files, (tip,), "from elsewhere"))
    return repository.remote[branch]


def commit_here(repository: MemoryRepository, changes: Mapping[str, bytes]) -> str:
    """A commit of *changes* on main by the user in their folder; the new tip."""
    tip = repository.refs["refs/heads/main"]
    sha = repository.add(Commit({**repository.commits[tip].files, **changes}, (tip,), "by the user"))
    repository._move("main", sha)
    return sha


@dataclass(frozen=True)
class MemoryProject:
    """A user's folder at *root* (branch main, one commit), its remote, and the workspaces, all in *repository*."""

    root: Path
    repository: MemoryRepository

    @property
    def target(self) -> PublishPolicy:
        return PublishPolicy(remote="origin", target_branch="main")

    @property
    def local_target(self) -> PublishPolicy:
        return PublishPolicy(remote=None, target_branch="main")

    def work(self, base: str | None = None, *, message: str = "[run] #1: work", **files: str) -> str:
        """A commit made in the run workspace on *base* and kept, as an attempt would."""
        workspace, base = self.repository.workspace("run", PLAIN), base or self.tip()
        workspace.prepare(base)
        write(workspace.path, **(files or {"work.txt": "done\n"}))
        made = workspace.commit(message, base=base)
        assert isinstance(made, Committed), made
        self.repository.keep(made.sha, f"refs/irontree/issue-1/{made.sha[:8]}", source=workspace)
        return made.sha

    def tip(self) -> str:
        """The user's own main."""
        return self.repository.refs["refs/heads/main"]

    def commit_here(self, path: str, text: str) -> str:
        return commit_here(self.repository, {path: text.encode()})

    def take_remote_away(self) -> None:
        self.repository.failures += [RemoteUnavailable("nobody listens")] * 2

    def take_back(self, policy: PublishPolicy) -> str:
        branches, name = (
            (self.repository.remote, "main") if policy.remote else (self.repository.refs, "refs/heads/main")
        )
        branches[name] = self.parents(branches[name])[0]
        return branches[name]

    def begin_elsewhere(self, policy: PublishPolicy) -> str:
        found = self.repository
        tip = found.add(Commit({**found.commits[self.tip()].files, "theirs": b"theirs"}, (self.tip(),), "theirs"))
        if policy.remote:
            found.remote[policy.target_branch] = tip
        else:
            found.refs[f"refs/heads/{policy.target_branch}"] = tip
        return tip

    def delete_branch(self, policy: PublishPolicy) -> None:
        if policy.remote:
            del self.repository.remote[policy.target_branch]
        else:
            del self.repository.refs[f"refs/heads/{policy.target_branch}"]

    def delete_target(self) -> None:
        del self.repository.remote["main"]

    def protect_remote(self) -> None:
        self.repository.failures.append(PublicationRefused("protected branch hook declined", reason="refused"))

    def refuse_commits(self, words: str) -> None:
        self.repository.hook = lambda _: words

    def push_from_elsewhere(self, path: str = "elsewhere.txt", text: str = "theirs\n") -> str:
        return push_from_elsewhere(self.repository, {path: text.encode()})

    def parents(self, sha: str) -> tuple[str, ...]:
        return self.repository.commits[sha].parents

    def show(self, sha: str, path: str) -> str:
        return self.repository.commits[sha].files[path].decode()


def make_memory_project(folder: Path) -> MemoryProject:
    root = folder / "project"
    root.mkdir(parents=True)
    write(root, **{"app.py": "print('hello')\n"})
    return MemoryProject(root, MemoryRepository(root, folder / "cache-root"))
