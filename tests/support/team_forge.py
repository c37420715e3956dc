"""The doubles of forges before a real git remote: people write, check and merge there, as a team in it sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from irontree.forges.gitea import GiteaForge
from irontree.forges.github import GithubForge
from irontree.ports import Forge
from tests.support.gitea.server import GiteaServer, gitea_server
from tests.support.gitea.stage import settings as gitea_settings
from tests.support.github.server import GithubServer, serve
from tests.support.github.stage import github_settings
from tests.support.github.state import Hub
from tests.support.repositories import git


def later() -> datetime:
    """The forge's clock is ahead: what is said after a question has a later time, whatever the second."""
    return datetime.now(UTC) + timedelta(minutes=5)


class Branches(Mapping[str, str]):
    """The branches of a bare repository, as they are now."""

    def __init__(self, remote: Path) -> None:
        self._remote = remote

    def __getitem__(self, branch: str) -> str:
        return self._all()[branch]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, str]:
        told = git(self._remote, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads")
        return dict(line.split() for line in told.splitlines())


class Commits:
    """The commits of a bare repository."""

    def __init__(self, remote: Path) -> None:
        self._remote = remote

    def __contains__(self, sha: str) -> bool:
        return git(self._remote, "cat-file", "-t", sha, check=False).strip() == "commit"


class TeamForge(Protocol):
    """A repository in which `alice` and the accounts of agents may write, and `mallory` may not."""

    alice: Forge
    mallory: Forge
    section: str
    token: tuple[str, str]

    def share(self, remote: Path) -> None:
        """Have the branches and commits of that bare repository."""
        ...

    def report(self, sha: str, state: str) -> None:
        """Say of a commit what CI came to."""
        ...

    def merged(self, number: int, sha: str) -> None:
        """Alice has merged the request; *sha* is what the target has now."""
        ...


class TeamOnGitea:
    def __init__(self, server: GiteaServer) -> None:
        self._contents = server.contents
        self._contents.account("irontree", "admin")
        self._contents.account("chief-bot", "write")
        self.alice, self.mallory = (
            GiteaForge(gitea_settings(server, self._contents.account(who, may)))
            for who, may in (("alice", "write"), ("mallory", "read"))
        )
        self.section = f"forge:\n  adapter: gitea\n  url: {server.url}\n  repository: palms/iron\n"
        self.token = ("GITEA_TOKEN", "token-of-irontree")

    def share(self, remote: Path) -> None:
        self._contents.branches = Branches(remote)

    def report(self, sha: str, state: str) -> None:
        self._contents.new_status(sha, "alice", "build", state, "it says so")

    def merged(self, number: int, sha: str) -> None:
        self._contents.merge(number, "alice", sha)


class TeamOnGithub:
    def __init__(self, folder: Path, server: GithubServer) -> None:
        self._hub = server.hub
        self._hub.tokens["token-alice"] = "alice"
        self._hub.rights |= {"alice": "write", "chief-bot": "write"}
        self.alice, self.mallory = (GithubForge(github_settings(folder, server, who)) for who in ("alice", "mallory"))
        self.section = f"forge:\n  adapter: github\n  url: {server.url}\n  repository: ada/engine\n"
        self.token = ("GITHUB_TOKEN", "token-irontree")

    def share(self, remote: Path) -> None:
        self._hub.branches, self._hub.commits = Branches(remote), Commits(remote)

    def report(self, sha: str, state: str) -> None:
        about: dict[str, Any] = {"state": state, "context": "build", "description": "it says so", "target_url": None}
        self._hub.statuses.append(about | {"id": self._hub.new_id(), "sha": sha})

    def merged(self, number: int, sha: str) -> None:
        self._hub.merge(number, "alice", sha)


@contextmanager
def on_gitea(_: Path) -> Iterator[TeamForge]:
    with gitea_server(later) as server:
        yield TeamOnGitea(server)


@contextmanager
def on_github(folder: Path) -> Iterator[TeamForge]:
    with serve(Hub(now=f"{later():%Y-%m-%dT%H:%M:%SZ}")) as server:
        yield TeamOnGithub(folder, server)
