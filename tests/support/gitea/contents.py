"""What a Gitea server keeps: accounts, one repository, its issues, pull requests, reviews and commit statuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

WIP = ("WIP:", "[WIP]")
"""WORK_IN_PROGRESS_PREFIXES as shipped."""
OPINIONS = {"APPROVED", "REQUEST_CHANGES"}
ZONE = timezone(timedelta(hours=1))
"""Gitea writes times in the zone of its server."""


@dataclass
class Label:
    id: int
    name: str
    color: str
    description: str = ""


@dataclass
class Comment:
    id: int
    author: str
    body: str
    created: datetime
    edited: datetime | None = None
    reactions: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Event:
    """Something that was done to an issue: `assignees`, `close`, `reopen`, `merge_pull`."""

    id: int
    type: str
    author: str
    created: datetime
    assignee: str | None = None
    removed: bool = False


@dataclass
class Status:
    id: int
    context: str
    state: str
    description: str
    target_url: str
    author: str
    created: datetime


@dataclass
class Remark:
    """A comment on a line of the new file, or of the old one."""

    id: int
    path: str
    body: str
    line: int = 0
    old_line: int = 0


@dataclass
class Review:
    id: int
    author: str
    state: str
    body: str
    commit: str
    created: datetime
    dismissed: bool = False
    remarks: tuple[Remark, ...] = ()


@dataclass
class Pull:
    """The part of a pull request that its issue does not have."""

    head: str
    base: str
    sha: str
    of_a_fork: bool = False
    branch_is_there: bool = True
    merged_by: str | None = None
    merge_sha: str | None = None
    reviews: list[Review] = field(default_factory=list)


@dataclass
class Issue:
    number: int
    title: str
    body: str
    author: str
    created: datetime
    updated: datetime
    state: str = "open"
    labels: list[int] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    pull: Pull | None = None
    indexed: bool = False
    assignees: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    dependencies: list[int] = field(default_factory=list)
    wip: tuple[str, ...] = WIP

    @property
    def draft(self) -> bool:
        return self.title.upper().startswith(self.wip)


@dataclass
class Account:
    """`scopes` of its token; None: all of them."""

    login: str
    permission: str
    scopes: frozenset[str] | None = None


@dataclass
class Team:
    """A team of the organization. *permission* is `admin` or, where its *units* count, `none`.

    One that was made in the browser has the narrowest of its units there: `write` for issues alone too.
    """

    id: int
    name: str
    permission: str
    units: dict[str, str]
    members: set[str]


@dataclass
class Contents:
    """Everything of one server; a test changes it as a person or an administrator would."""

    clock: Callable[[], datetime]
    created: datetime = datetime(2020, 2, 2, tzinfo=ZONE)
    owner: str = "palms"
    name: str = "iron"
    former_name: str | None = None
    archived: bool = False
    has_issues: bool = True
    deletes_merged_branches: bool = True
    has_dependencies: bool = True
    has_pull_requests: bool = True
    empty: bool = False
    wip: tuple[str, ...] = WIP
    """WORK_IN_PROGRESS_PREFIXES, in upper case."""
    merge_styles: list[str] = field(default_factory=lambda: ["merge", "rebase", "rebase-merge", "squash"])
    """Those that are allowed, the preferred one first."""
    protected: set[str] = field(default_factory=set)
    """Branches that nobody may push to."""
    version: str = "1.24.0"
    max_page: int = 50
    """MAX_RESPONSE_ITEMS as shipped; `limit` above it is cut without a word."""
    lag: int = 0
    """So many of the newest issues are not in lists yet, as behind a read replica."""
    tokens: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    statuses: dict[str, list[Status]] = field(default_factory=dict)
    teams: list[Team] | None = None
    """Those that the repository is in; None: its owner is no organization."""
    ids: Any = field(default_factory=lambda: count(101))

    def account(self, login: str, permission: str, *, scopes: frozenset[str] | None = None) -> str:
        """Give an account its permission here, and return a token of it."""
        self.accounts[login] = Account(login, permission, scopes)
        self.tokens[f"token-of-{login}"] = login
        return f"token-of-{login}"

    def team(self, name: str, *members: str, permission: str = "none", **units: str) -> Team:
        """Give the organization that owns the repository a team: `code="read"` and so on."""
        self.teams = self.teams or []
        made = Team(
            next(self.ids), name, permission, {f"repo.{unit}": mode for unit, mode in units.items()}, {*members}
        )
        self.teams.append(made)
        return made

    def now(self) -> datetime:
        return self.clock().astimezone(ZONE)

    def migrate(self) -> None:
        """All that is here came with the repository, from elsewhere: text keeps its time, and gets the account of
        whoever migrates unless the author is known here (`services/migrations/gitea_uploader.go:983-997` in 1.25.4).
        """
        self.created = self.now()

    def new_issue(self, author: str, title: str, body: str = "", labels: tuple[int, ...] = ()) -> Issue:
        number = len(self.issues) + 1
        self.issues[number] = Issue(
            number, title, body, author, self.now(), self.now(), labels=[*dict.fromkeys(labels)], wip=self.wip
        )
        return self.issues[number]

    def new_pull(self, author: str, title: str, body: str, head: str, base: str = "main") -> Issue:
        issue = self.new_issue(author, title, body)
        issue.pull = Pull(head, base, self.branches.get(head, "f" * 40))
        return issue

    def new_comment(self, issue: Issue, author: str, body: str) -> Comment:
        issue.updated = self.now()
        issue.comments.append(Comment(next(self.ids), author, body, self.now()))
        return issue.comments[-1]

    def new_event(self, issue: Issue, kind: str, author: str, assignee: str | None = None, *, removed: bool = False):
        issue.updated = self.now()
        issue.events.append(Event(next(self.ids), kind, author, self.now(), assignee, removed))

    def assign(self, issue: Issue, logins: list[str], by: str) -> None:
        for login in {*issue.assignees} ^ {*logins}:
            self.new_event(issue, "assignees", by, login, removed=login in issue.assignees)
        issue.assignees = logins

    def put_into_state(self, issue: Issue, state: str, by: str) -> None:
        if state != issue.state:
            self.new_event(issue, "close" if state == "closed" else "reopen", by)
        issue.state, issue.updated = state, self.now()

    def new_label(self, name: str, color: str, description: str = "") -> Label:
        """Names are not unique: the second of a name is another label."""
        self.labels.append(Label(next(self.ids), name, color.removeprefix("#").lower(), description))
        return self.labels[-1]

    def push(self, branch: str, sha: str) -> None:
        self.branches[branch] = sha

    def head_of(self, issue: Issue) -> str:
        """The commit of a pull request: as long as it is open, that of its branch."""
        assert issue.pull
        if issue.state == "open" and not issue.pull.of_a_fork:
            issue.pull.sha = self.branches.get(issue.pull.head, issue.pull.sha)
        return issue.pull.sha

    def merge(self, number: int, by: str, sha: str, *, delete_branch: bool = False) -> None:
        issue = self.issues[number]
        self.head_of(issue)
        assert issue.pull
        issue.state, issue.pull.merged_by, issue.pull.merge_sha = "closed", by, sha
        self.new_event(issue, "merge_pull", by)
        issue.pull.branch_is_there = not delete_branch

    def review(self, number: int, author: str, state: str, body: str = "", remarks: tuple[Remark, ...] = ()) -> Review:
        """A new opinion dismisses the earlier ones of the same person, as Gitea does it."""
        issue = self.issues[number]
        pull = issue.pull
        assert pull
        issue.requested = [login for login in issue.requested if login != author]
        if state in OPINIONS:
            for earlier in pull.reviews:
                earlier.dismissed |= earlier.author == author and earlier.state in OPINIONS
        pull.reviews.append(
            Review(next(self.ids), author, state, body, self.head_of(self.issues[number]), self.now(), remarks=remarks)
        )
        return pull.reviews[-1]

    def new_status(
        self, sha: str, author: str, context: str, state: str, description: str = "", url: str = ""
    ) -> Status:
        status = Status(next(self.ids), context or "default", state, description, url, author, self.now())
        self.statuses.setdefault(sha, []).append(status)
        return status
