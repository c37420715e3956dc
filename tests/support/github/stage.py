"""The `github` adapter before its double."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from irontree.forges import ForgeSettings, Location
from irontree.forges.github import GithubForge
from irontree.ports import ReviewVerdict
from tests.support.forges import BASE_SHA, Remarks, settings
from tests.support.github.server import GithubServer, serve
from tests.support.github.state import Fault, Hub, Reply


def github_settings(folder: Path, server: GithubServer, account: str) -> ForgeSettings:
    """Of *account*, whose token the double knows; nothing is waited for."""
    return replace(
        settings(folder, account),
        location=Location(server.url, server.hub.full_name),
        environment={"GITHUB_TOKEN": f"token-{account}"},
        sleep=lambda _: None,
        write_interval=0,
        answer_within=5,
    )


class GithubStage:
    """A repository on the double, with ways to break things."""

    people_log_in = True

    def __init__(self, folder: Path, server: GithubServer) -> None:
        self.server = server
        self.hub = server.hub
        self.hub.push("main", BASE_SHA)
        self._folder = folder
        self.ours, self.stranger = self.afresh(), GithubForge(github_settings(folder, server, "mallory"))

    def afresh(self, *agents: str) -> GithubForge:
        about = github_settings(self._folder, self.server, "irontree")
        return GithubForge(replace(about, agents=frozenset(agents)))

    def push(self, branch: str, sha: str) -> None:
        self.hub.push(branch, sha)

    def merge(self, number: int) -> str:
        return self.hub.merge(number, "writer")

    def review(self, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()) -> None:
        review = self.hub.review(self.hub.issues[number], author, verdict.upper(), body)
        for path, line, text in remarks:
            place = {"path": path, "line": line, "pull_request_review_id": review["id"]}
            about = {key: review[key] for key in ("number", "author", "commit_id")}
            self.hub.remarks.append({"id": self.hub.new_id(), "body": text, **about, **place})

    def dismiss(self, account: str) -> None:
        self.hub.rights[account] = "read"

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        """The server's clock stands still."""
        record = self.hub.comments[int(comment_id)]
        record |= {"body": body, "updated_at": f"{record['created_at'][:-3]}59Z"}

    def people(self, number: int) -> tuple[list[str], list[str]]:
        record = self.hub.issues[number]
        return record.get("assignees", []), record.get("requested", [])

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        record = self.hub.issues[number]
        return record.get("dependencies", []), record.get("parts", [])

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        return {*self.hub.comments[int(comment_id)].get("reactions", {})}

    def go_down(self) -> None:
        self.hub.faults.append(Fault(Reply(503, {"message": "No server is currently available"})))

    def lose_next_answer(self) -> None:
        self.hub.faults.append(Fault("reset-after", lambda request: request.verb != "GET", times=1))

    def lag(self, newest: int) -> None:
        self.hub.lag = newest

    def break_listings(self, behind: int) -> None:
        self.hub.breaks_behind = behind


@contextmanager
def github(folder: Path) -> Iterator[GithubStage]:
    """One empty repository, `ada/engine`."""
    with serve(Hub()) as server:
        yield GithubStage(folder, server)
