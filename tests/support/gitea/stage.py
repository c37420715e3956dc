"""A Gitea server as the contract suites want it: two accounts with their tokens, and what others and the network do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from irontree.forges import ForgeSettings, Location
from irontree.forges.gitea import GiteaForge
from irontree.ports import ReviewVerdict
from irontree.store.codec import read_mapping, write_mapping
from tests.support.forges import BASE_SHA, Noon, Remarks
from tests.support.gitea.contents import Remark
from tests.support.gitea.server import Fault, GiteaServer, gitea_server

ALWAYS = 10**6
MARKER = "<!-- irontree:task-key auth-login -->"
STATES = {"approved": "APPROVED", "changes_requested": "REQUEST_CHANGES", "commented": "COMMENT"}


class MovingClock:
    """Says noon until a test moves it."""

    def __init__(self) -> None:
        self.moment = Noon().now()

    def now(self) -> datetime:
        return self.moment

    def pass_by(self, **amount: int) -> None:
        self.moment += timedelta(**amount)


class Waits(list[float]):
    """Every wait that was asked for; none is waited."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def settings(server: GiteaServer, token: str, *, sleep: Waits | None = None) -> ForgeSettings:
    """How the holder of *token* reaches the repository of *server*."""
    location = Location(server.url, f"{server.contents.owner}/{server.contents.name}")
    return replace(settings_at(location), environment={"GITEA_TOKEN": token}, sleep=Waits() if sleep is None else sleep)


def settings_at(location: Location) -> ForgeSettings:
    """Without a token."""
    return ForgeSettings(Path(), "nobody", Noon(), read_mapping, write_mapping, location=location, sleep=Waits())


def forge_with(location: Location, token: str, *agents: str) -> GiteaForge:
    """The forge as the holder of *token* sees it, where *agents* are accounts of agents."""
    about = replace(settings_at(location), environment={"GITEA_TOKEN": token}, agents=frozenset(agents))
    return GiteaForge(about)


def forge_at(url: str, ca_file: Path | None = None, **environment: str) -> GiteaForge:
    """A forge at an address of one's own choice, as `irontree`."""
    tokens = {"GITEA_TOKEN": "token-of-irontree", **environment}
    return GiteaForge(replace(settings_at(Location(url, "palms/iron", ca_file)), environment=tokens))


class GiteaStage:
    """Implements `FallibleStage`."""

    people_log_in = True

    def __init__(self, server: GiteaServer) -> None:
        self.server = server
        server.contents.branches["main"] = BASE_SHA
        server.contents.account("writer", "write")
        self._token, stranger = server.contents.account("irontree", "admin"), server.contents.account("mallory", "read")
        self.ours, self.stranger = self.afresh(), GiteaForge(settings(server, stranger))
        self._remarks = count(1)

    def afresh(self, *agents: str) -> GiteaForge:
        return GiteaForge(replace(settings(self.server, self._token), agents=frozenset(agents)))

    def push(self, branch: str, sha: str) -> None:
        self.server.contents.push(branch, sha)

    def merge(self, number: int) -> str:
        sha = f"{number:040x}"
        self.server.contents.merge(number, "writer", sha, delete_branch=True)
        return sha

    def review(
        self,
        number: int,
        author: str,
        verdict: ReviewVerdict,
        body: str,
        remarks: Remarks = (),
    ) -> None:
        said = tuple(Remark(next(self._remarks), path, text, line) for path, line, text in remarks)
        self.server.contents.review(number, author, STATES[verdict], body, said)

    def dismiss(self, account: str) -> None:
        self.server.contents.account(account, "read")

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        """The server's clock stands still."""
        comment = next(each for each in self.server.contents.issues[number].comments if each.id == int(comment_id))
        comment.body, comment.edited = body, comment.created + timedelta(seconds=59)

    def people(self, number: int) -> tuple[list[str], list[str]]:
        issue = self.server.contents.issues[number]
        return issue.assignees, issue.requested

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        """Gitea knows no parts."""
        return self.server.contents.issues[number].dependencies, []

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        comments = self.server.contents.issues[number].comments
        return next(each.reactions for each in comments if each.id == int(comment_id))

    def go_down(self) -> None:
        self.server.faults.append(Fault(status=503, times=ALWAYS))

    def lose_next_answer(self) -> None:
        self.server.faults.append(Fault("POST", drop="after"))

    def lag(self, newest: int) -> None:
        self.server.contents.lag = newest

    def break_listings(self, behind: int) -> None:
        self.server.faults.append(Fault("GET", "/issues", shown=behind, times=ALWAYS))


@contextmanager
def gitea(_: Path) -> Iterator[GiteaStage]:
    """Behind a sub-path and in a time zone, as a server may be."""
    with gitea_server(Noon().now, prefix="/git") as server:
        yield GiteaStage(server)
