"""Requests to merge a branch, what people and CI say about them, and what a forge tells about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

ReviewVerdict = Literal["approved", "changes_requested", "commented", "dismissed"]
CheckState = Literal["pending", "success", "failure"]


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request; it shares the numbers of the issues, and comments and labels with them."""

    number: int
    title: str
    body: str
    state: Literal["open", "closed"]
    merged: bool
    draft: bool
    head_branch: str
    head_sha: str
    base_branch: str
    merge_sha: str | None
    """The commit that brought it into the base branch; None before that."""
    merged_by: str | None
    """The account that merged it; None before that, or where the forge does not know."""
    mergeable: bool | None
    """None: not known (yet)."""
    author: str
    url: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A review's comment on a line; `path` and `line` are None where the forge shows none."""

    id: str
    author: str
    trusted: bool
    body: str
    path: str | None
    line: int | None
    url: str


@dataclass(frozen=True, slots=True)
class Review:
    """A review that was handed in; `trusted` if its author is us or has write access (R20)."""

    id: str
    author: str
    trusted: bool
    verdict: ReviewVerdict
    body: str
    commit: str
    """The SHA that was reviewed; empty where the forge does not say."""
    submitted_at: str
    url: str
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitCheck:
    """What CI says about a commit, by the name of the check."""

    name: str
    state: CheckState
    summary: str
    url: str
    excerpt: str = ""
    """The tail of its log or its annotations, some 4 KB at most; empty if the forge shows none."""


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """Who we are to the forge, and what it lets us do."""

    full_name: str
    """`owner/name`, as the forge has it now: a renamed repository shows its new name."""
    url: str
    default_branch: str
    account: str
    can_write: bool
    archived: bool
    has_issues: bool


class PullRequests(Protocol):
    """Pull requests of one repository; their branches were pushed before."""

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head* into *base*. Raises RemoteFailed if there is one open already."""
        ...

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none, or the number is an issue's."""
        ...

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, in any state, lowest number first: look before you create."""
        ...

    def edit_pull_request(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
        draft: bool | None = None,
    ) -> PullRequest:
        """Change what is given, leave the rest."""
        ...

    def reviews(self, number: int) -> tuple[Review, ...]:
        """What was handed in, oldest first, each with its remarks."""
        ...


class Checks(Protocol):
    """What CI, and we, say about a commit."""

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """Statuses and check runs, the newest of each name, ordered by name."""
        ...

    def set_commit_status(
        self, sha: str, *, name: str, state: CheckState, description: str, url: str | None = None
    ) -> None:
        """Say under *name* how the commit fares; the newest counts. A description is cut to what the forge takes."""
        ...


class About(Protocol):
    """What a person wants to know before work begins, and who may do what."""

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now (ruling R20); asked anew each time."""
        ...

    def about(self) -> RepositoryFacts:
        """Ask the forge. Raises AccessRefused if it does not let us in, RemoteUnavailable if it does not answer."""
        ...
