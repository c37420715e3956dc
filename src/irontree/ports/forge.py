"""GitHub, Gitea/Forgejo, or plain files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from irontree.ports.pull_requests import About, Checks, PullRequests


@dataclass(frozen=True, slots=True)
class Label:
    """A label of the forge; `color` is 6 hex digits."""

    name: str
    color: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `ours` if our own account wrote it, `trusted` if its author is us or has write access (R20)."""

    id: str
    body: str
    author: str
    ours: bool
    created_at: str
    url: str
    trusted: bool
    edited: bool = False
    """Whether it was changed after it was posted: others than its author may do that."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue as the forge shows it; `trusted` if its author is us or has write access (ruling R8)."""

    number: int
    title: str
    body: str
    state: Literal["open", "closed"]
    labels: tuple[str, ...]
    author: str
    trusted: bool
    url: str
    pull_request: bool = False
    """Some forges list their pull requests among the issues."""


class IssueTracker(Protocol):
    """Issues of one repository."""

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue.

        Never sent twice: if no answer comes, it is RemoteUnavailable, and the issue may be there (`find_issues`).
        """
        ...

    def read_issue(self, number: int) -> Issue | None:
        """The issue; None if there is none."""
        ...

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, lowest number first; pull requests left out.

        By a complete listing: search lags, and so may a listing, so what was created a moment ago is looked for too.
        """
        ...

    def open_issues(self, label: str) -> tuple[Issue, ...]:
        """Open issues that carry *label*, oldest first; pull requests left out."""
        ...

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest."""
        ...


class Comments(Protocol):
    """Comments of an issue."""

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        ...

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment* (ISO 8601, UTC, by the forge's clock), oldest first.

        Cheap to ask again: where the forge can say so, nothing is sent as long as nothing changed (ETag).
        """
        ...

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment; never sent twice (see `create_issue`)."""
        ...

    def edit_comment(self, number: int, comment_id: str, body: str) -> Comment:
        """Put *body* in place of the text of a comment of issue *number*."""
        ...


class Labels(Protocol):
    """Labels of a repository and of its issues."""

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Create those that are missing; leave existing ones as they are."""
        ...

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove; what is there already, or not there, is no error."""
        ...


class Links(Protocol):
    """Addresses of what is published, for people."""

    def issue_url(self, number: int) -> str | None:
        """Where the issue can be looked at; None where the forge shows none. Asks nobody."""
        ...

    def commit_url(self, sha: str | None) -> str | None:
        """Where the commit can be looked at; None without one, or where the forge shows none."""
        ...

    def file_url(self, branch: str, path: str) -> str | None:
        """Where the file of that branch can be looked at; None where the forge shows none."""
        ...


class Forge(IssueTracker, Comments, Labels, Links, PullRequests, Checks, About, Protocol):
    """GitHub, Gitea/Forgejo, or plain files.

    Every method raises RemoteUnavailable where the forge may answer later, AccessRefused where it does not let us
    in, RemoteFailed for everything else, such as an issue that is not there. Bodies come back to the letter as far as
    the forge keeps them: see `irontree.forges.text`.
    """

    @property
    def name(self) -> str:
        """The adapter's name, as in the configuration."""
        ...
