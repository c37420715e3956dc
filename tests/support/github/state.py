"""What the double of GitHub keeps: one repository, its accounts, and what is to go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Record = dict[str, Any]
Right = Literal["admin", "write", "read", "none"]
LOG_HOST: Final = "localhost"
"""Where logs are kept: a name that is not that of the server."""


@dataclass
class Request:
    """A request as it came in; `path` is without the API's prefix."""

    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    account: str = ""
    unchanged: bool = False
    """Whether it was answered with 304."""


@dataclass
class Reply:
    """What is answered; a `body` of text is sent as it is."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """One thing that goes wrong, so many times, for requests that match."""

    reply: Reply | Literal["reset-before", "reset-after", "silence"]
    matches: Callable[[Request], bool] = lambda _: True
    times: int = 1_000_000


@dataclass
class Hub:
    """Everything the server knows; `lock` is held for each request."""

    owner: str = "ada"
    name: str = "engine"
    names_of_old: set[str] = field(default_factory=set)
    archived: bool = False
    has_issues: bool = True
    deletes_merged_branches: bool = True
    private: bool = False
    relations: bool = True
    """An older Enterprise Server has neither sub-issues nor dependencies."""
    rules: dict[str, list[str]] = field(default_factory=dict)
    """Types of the rules of a branch, all of one ruleset."""
    bypass: str | None = "never"
    """Whether whoever asks may bypass that ruleset; None: not told."""
    protection: dict[str, Record] = field(default_factory=dict)
    """Classic protection of a branch, as the API shows it to administrators."""
    scopes: dict[str, str] = field(default_factory=dict)
    """Of classic tokens, by account: told with every answer."""
    merge_methods: tuple[str, ...] = ("merge", "squash", "rebase")
    """Those that are allowed."""
    drafts: bool = True
    """A private repository of a free account has none."""
    tokens: dict[str, str] = field(default_factory=lambda: {f"token-{who}": who for who in ("irontree", "mallory")})
    rights: dict[str, Right] = field(default_factory=lambda: {"irontree": "admin", "writer": "write"})
    apps: dict[int, str] = field(default_factory=dict)
    """Installations by id, with the login their tokens act under."""
    issues: dict[int, Record] = field(default_factory=dict)
    """Pull requests too: those have the key `head`."""
    deleted: set[int] = field(default_factory=set)
    comments: dict[int, Record] = field(default_factory=dict)
    labels: dict[str, Record] = field(default_factory=dict)
    reviews: list[Record] = field(default_factory=list)
    remarks: list[Record] = field(default_factory=list)
    statuses: list[Record] = field(default_factory=list)
    runs: list[Record] = field(default_factory=list)
    """Check runs, oldest first; those of one name in one suite are one and its repetitions."""
    workflow_runs: list[Record] | None = field(default_factory=list)
    """Which workflow began a suite, and on which event; None: not for the token to see."""
    annotations: dict[int, list[Record]] = field(default_factory=dict)
    logs: dict[int, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    now: str = "2026-01-02T12:00:00Z"
    lag: int = 0
    breaks_behind: int | None = None
    largest_page: int = 100
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _ids: int = 1000

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def right(self, account: str) -> Right:
        return self.rights.get(account, "none" if self.private else "read")

    def may_write(self, account: str) -> bool:
        return self.right(account) in {"admin", "write"}

    def push(self, branch: str, sha: str) -> None:
        self.branches[branch] = sha
        self.commits.add(sha)

    def assign(self, record: Record, logins: list[str], by: str) -> None:
        """Assign accounts to an issue, beside those that are."""
        there = record.setdefault("assignees", [])
        new = [login for login in logins if login not in there]
        events = record.setdefault("events", [])
        events += (
            {"id": self.new_id(), "event": "assigned", "assignee": login, "by": by, "at": self.now} for login in new
        )
        record |= {"assignees": [*there, *new], "updated_at": self.now}

    def review(self, record: Record, author: str, state: str, body: str, commit: str | None = None) -> Record:
        """Hand in a review: who was asked for it is asked no more."""
        record["requested"] = [login for login in record.get("requested", ()) if login != author]
        review = {"id": self.new_id(), "number": record["number"], "author": author, "body": body, "state": state}
        self.reviews.append(review | {"commit_id": commit or record["head_sha"], "submitted_at": self.now})
        return self.reviews[-1]

    def merge(self, number: int, by: str, sha: str = "") -> str:
        """Merge a request; the commit, one of its own unless *sha* is there already."""
        if not sha:
            self.commits.add(sha := f"{number:040x}")
        merged = {"merged_by": by, "merge_commit_sha": sha, "merged_at": self.now}
        self.issues[number] |= {"state": "closed", "closed_by": by, **merged}
        return sha

    def take_fault(self, request: Request) -> Fault | None:
        """The first that fits, used up by once."""
        fault = next((fault for fault in self.faults if fault.times and fault.matches(request)), None)
        if fault:
            fault.times -= 1
        return fault
