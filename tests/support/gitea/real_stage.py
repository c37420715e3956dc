"""A repository of a real Gitea as the contract suites want it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from irontree.forges import Location
from irontree.ports import ReviewVerdict
from tests.support.forges import BASE_SHA, HEAD_SHA, LATER_SHA, Remarks
from tests.support.gitea.real import RealGitea
from tests.support.gitea.stage import STATES, forge_with

OWNER = "palms"
SECONDS = 20
NUMBERS = count(1)


class Translated:
    """A forge that speaks of the made-up commits of the suites, where the server has commits that exist."""

    def __init__(self, forge: Any, commits: dict[str, str]) -> None:
        self._forge = forge
        self._there = commits
        self._here = {real: made_up for made_up, real in commits.items()}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._forge, name)
        if not callable(found):
            return found

        def call(*args: Any, **changes: Any) -> Any:
            given = {key: translated(value, self._there) for key, value in changes.items()}
            return translated(found(*(translated(arg, self._there) for arg in args), **given), self._here)

        return call


def translated(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, tuple):
        parts = [translated(part, words) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def make_commits(folder: Path) -> dict[str, str]:
    """A git repository with the commits of the suites; the real one of each made-up one."""
    git(folder, "init", "-q", "-b", "main", ".")
    made = {}
    for sha, text in ((BASE_SHA, "first\n"), (HEAD_SHA, "second\n"), (LATER_SHA, "third\n")):
        (folder / "src").mkdir(exist_ok=True)
        for name in ("a.py", "src/login.py"):
            (folder / name).write_text(text * 20)
        git(folder, "add", "-A")
        git(folder, "-c", "user.name=ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", text)
        made[sha] = git(folder, "rev-parse", "HEAD")
    return made


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def until(holds: Callable[[], object], what: str) -> None:
    """The server does some things in the background."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class RealGiteaStage:
    """Implements `Stage` with a new repository."""

    people_log_in = True

    def __init__(self, server: RealGitea, git_folder: Path, commits: dict[str, str]) -> None:
        self.server, self._folder, self._commits = server, git_folder, commits
        self.name = f"iron{next(NUMBERS)}"
        self.home = f"repos/{OWNER}/{self.name}"
        server.ask("POST", "user/repos", OWNER, name=self.name, default_branch="main")
        for login, permission in (("irontree", "admin"), ("writer", "write")):
            server.ask("PUT", f"{self.home}/collaborators/{login}", OWNER, permission=permission)
        self.push("main", BASE_SHA)
        self.ours, self.stranger = (self._forge(login) for login in ("irontree", "mallory"))

    def afresh(self, *agents: str) -> Any:
        return self._forge("irontree", *agents)

    def _forge(self, login: str, *agents: str) -> Translated:
        there = Location(self.server.url, f"{OWNER}/{self.name}")
        return Translated(forge_with(there, self.server.tokens[login], *agents), self._commits)

    def push(self, branch: str, sha: str) -> None:
        real = self._commits[sha]
        there = self.server.url.replace("://", f"://{OWNER}:{self.server.tokens[OWNER]}@")
        git(self._folder, "push", "-q", "--force", f"{there}/{OWNER}/{self.name}.git", f"{real}:refs/heads/{branch}")
        until(lambda: not self.server.ask("GET", self.home, OWNER)["empty"], "the repository stays empty")
        until(lambda: all(self._has(one, branch, real) for one in self._open_pulls()), "the request does not follow")

    def _open_pulls(self) -> list[Any]:
        return list(self.server.ask("GET", f"{self.home}/pulls?state=open", OWNER))

    @staticmethod
    def _has(shown: Any, branch: str, sha: str) -> bool:
        return bool(shown["head"]["ref"] != branch or shown["head"]["sha"] == sha)

    def merge(self, number: int) -> str:
        pull = f"{self.home}/pulls/{number}"
        title = self.server.ask("GET", pull, OWNER)["title"].removeprefix("WIP: ")
        self.server.ask("PATCH", pull, OWNER, title=title)
        until(lambda: self.server.answer("POST", f"{pull}/merge", "writer", {"Do": "merge"})[0] == 200, "no merge")
        return str(self.server.ask("GET", pull, OWNER)["merge_commit_sha"])

    def review(self, number: int, author: str, verdict: ReviewVerdict, body: str, remarks: Remarks = ()) -> None:
        said = [{"path": path, "new_position": line, "body": text} for path, line, text in remarks]
        given = {"event": STATES[verdict], "body": body, "comments": said}
        self.server.ask("POST", f"{self.home}/pulls/{number}/reviews", author, **given)

    def dismiss(self, account: str) -> None:
        self.server.ask("PUT", f"{self.home}/collaborators/{account}", OWNER, permission="read")

    def change_comment(self, number: int, comment_id: str, body: str) -> None:
        time.sleep(1.1)  # its times are in whole seconds
        self.server.ask("PATCH", f"{self.home}/issues/comments/{comment_id}", OWNER, body=body)

    def people(self, number: int) -> tuple[list[str], list[str]]:
        issue = self.server.ask("GET", f"{self.home}/issues/{number}", OWNER)
        pull = self.server.ask("GET", f"{self.home}/pulls/{number}", OWNER) if issue["pull_request"] else {}
        return _logins(issue["assignees"]), _logins(pull.get("requested_reviewers"))

    def related(self, number: int) -> tuple[list[int], list[int]] | None:
        """Gitea knows no parts."""
        on = self.server.ask("GET", f"{self.home}/issues/{number}/dependencies", OWNER)
        return [issue["number"] for issue in on], []

    def reactions(self, number: int, comment_id: str) -> set[tuple[str, str]] | None:
        shown = self.server.ask("GET", f"{self.home}/issues/comments/{comment_id}/reactions", OWNER)
        return {(each["user"]["login"], each["content"]) for each in shown or ()}


def forge_of(stage: RealGiteaStage) -> str:
    """The settings that name its repository."""
    return f"forge: {{adapter: gitea, url: '{stage.server.url}', repository: {OWNER}/{stage.name}}}\n"


def on_server(stage: RealGiteaStage, root: Path) -> Path:
    """Have the clone at *root* push to the server, as `irontree`, what it has."""
    there = stage.server.url.replace("://", f"://irontree:{stage.server.tokens['irontree']}@")
    git(root, "remote", "set-url", "origin", f"{there}/{OWNER}/{stage.name}.git")
    git(root, "push", "--quiet", "--force", "origin", "main")
    return root


def _logins(users: list[Any] | None) -> list[str]:
    return [user["login"] for user in users or ()]
