"""The forge that keeps its issues in memory: the shipped double for tests and trial runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.ports import Comment, Issue, Label


@dataclass(slots=True)
class Tracker:
    """What the accounts of one memory forge share. Set `outage` and every call fails until it is cleared."""

    issues: dict[int, Issue] = field(default_factory=dict)
    comments: dict[int, list[Comment]] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    outage: str | None = None
    writers: set[str] = field(default_factory=set)
    """Accounts with write access, besides the one that asks."""


class MemoryForge:
    """Implements `Forge`. Two forges on one `Tracker` with different accounts are strangers to each other."""

    name = "memory"

    def __init__(self, settings: ForgeSettings, tracker: Tracker | None = None) -> None:
        self._account = settings.account
        self._clock = settings.clock
        self._tracker = tracker or Tracker()

    @property
    def tracker(self) -> Tracker:
        """The shared contents; raises RemoteUnavailable during an outage, so every call goes through here."""
        if self._tracker.outage:
            raise RemoteUnavailable(self._tracker.outage)
        return self._tracker

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue."""
        number = len(self.tracker.issues) + 1
        self.tracker.issues[number] = Issue(
            number=number,
            title=" ".join(title.split()),
            body=body,
            state="open",
            labels=tuple(dict.fromkeys(labels)),
            author=self._account,
            trusted=True,
            url=f"memory:issue-{number}",
        )
        return self._issue(number)

    def read_issue(self, number: int) -> Issue | None:
        """The issue; None if there is none."""
        return self._issue(number) if number in self.tracker.issues else None

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, lowest number first."""
        issues = (self._issue(number) for number in sorted(self.tracker.issues))
        return tuple(issue for issue in issues if marker.strip() in map(str.strip, issue.body.split("\n")))

    def open_issues(self, label: str) -> tuple[Issue, ...]:
        """Open issues that carry *label*, lowest number first; pull requests left out."""
        issues = (self._issue(number) for number in sorted(self.tracker.issues))
        wanted = (issue for issue in issues if issue.state == "open" and label in issue.labels)
        return tuple(issue for issue in wanted if not issue.pull_request)

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest."""
        old = self._issue(number)
        self.tracker.issues[number] = replace(
            old,
            title=old.title if title is None else " ".join(title.split()),
            body=old.body if body is None else body,
            state=state or old.state,
        )
        return self._issue(number)

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        self._issue(number)
        posted = self.tracker.comments.get(number, [])
        return tuple(replace(c, ours=c.author == self._account, trusted=self._trusts(c.author)) for c in posted)

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        self._issue(number)
        posted = self.tracker.comments.setdefault(number, [])
        comment = Comment(
            id=f"{number}-{len(posted) + 1}",
            body=body,
            author=self._account,
            ours=True,
            created_at=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            url=f"memory:issue-{number}#{len(posted) + 1}",
            trusted=True,
        )
        posted.append(comment)
        return comment

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Create those that are missing; leave existing ones as they are."""
        for label in labels:
            self.tracker.labels.setdefault(label.name, label)

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove; what is there already, or not there, is no error."""
        old = self._issue(number)
        wanted = (name for name in dict.fromkeys([*old.labels, *add]) if name not in remove)
        self.tracker.issues[number] = replace(old, labels=tuple(wanted))

    def commit_url(self, sha: str | None) -> str | None:
        """An address that nobody answers at."""
        return f"https://forge.example/commit/{sha}" if sha else None

    def file_url(self, branch: str, path: str) -> str | None:
        """An address that nobody answers at."""
        return f"https://forge.example/{branch}/{path}"

    def _issue(self, number: int) -> Issue:
        if number not in self.tracker.issues:
            raise RemoteFailed(f"there is no issue #{number} in memory")
        issue = self.tracker.issues[number]
        return replace(issue, trusted=self._trusts(issue.author))

    def _trusts(self, author: str) -> bool:
        return author == self._account or author in self._tracker.writers
