"""Issues, comments and labels of the `gitea` forge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Literal

from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.gitea_access import GiteaAccess
from irontree.forges.gitea_http import Query
from irontree.forges.gitea_mapping import Shown, comment_of, issue_of
from irontree.forges.issue_index import IssueIndex, Listed
from irontree.forges.text import as_kept, holds_line, one_line
from irontree.ports import Comment, Issue, Label

_PLAIN: Final = "ededed"
"""The colour of a label that nobody described."""


class GiteaIssues(GiteaAccess):
    """Implements `IssueTracker`, `Comments` and `Labels`."""

    def __init__(self, settings: ForgeSettings) -> None:
        super().__init__(settings)
        self._index = IssueIndex(self._listed, self._listed_alone)

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue; labels that the repository does not have are made first."""
        ids = self._label_ids(labels)
        given = {"title": one_line(title), "body": as_kept(body), "labels": ids}
        return self._issue(self._write("POST", "issues", "place for issues", given))

    def read_issue(self, number: int) -> Issue | None:
        """The issue or pull request; None if there is none."""
        shown = self._look(f"issues/{number}")
        return self._issue(shown) if shown else None

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, lowest number first."""
        candidates = (self.read_issue(number) for number in self._index.numbers(marker))
        found = (issue for issue in candidates if issue and holds_line(issue.body, marker))
        return tuple(issue for issue in found if not issue.pull_request)

    def open_issues(self, label: str) -> tuple[Issue, ...]:
        """Open issues that carry *label*, lowest number first; pull requests left out.

        Gitea takes a label that does not exist out of its filter, so that all issues pass; a comma separates labels.
        """
        filters = {} if "," in label else {"labels": label}
        listed = self._client.read_all("issues", {"state": "open", "type": "issues", **filters})
        carrying = (shown for shown in listed if label in {known["name"] for known in shown["labels"] or ()})
        return tuple(map(self._issue, sorted(carrying, key=lambda shown: int(shown["number"]))))

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest."""
        changes = {
            "title": None if title is None else one_line(title),
            "body": None if body is None else as_kept(body),
            "state": state,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        return self._issue(self._write("PATCH", f"issues/{number}", f"issue #{number}", given))

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first; Gitea gives them all at once."""
        return self._comments(number)

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment*, oldest first. Gitea's API has no ETags."""
        return self._comments(number, {"since": moment})

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        with self._commenting(number):
            given = {"body": as_kept(body)}
            return self._comment(self._write("POST", f"issues/{number}/comments", f"issue #{number}", given))

    def edit_comment(self, number: int, comment_id: str, body: str) -> Comment:
        """Put *body* in place of the text of a comment."""
        what = f"comment {comment_id} on issue #{number}"
        if not comment_id.isdecimal():
            raise self._missing(what)
        return self._comment(self._write("PATCH", f"issues/comments/{comment_id}", what, {"body": as_kept(body)}))

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Create those that are missing; leave existing ones as they are."""
        known = self._known_labels()
        for label in labels:
            if label.name not in known:
                self._create_label(label)

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove; what is there already, or not there, is no error."""
        what = f"issue #{number}"
        present = self._find(f"issues/{number}", what)["labels"] or ()
        for label in present:
            if label["name"] in remove:
                self._write("DELETE", f"issues/{number}/labels/{label['id']}", what)
        missing = [name for name in add if name not in {label["name"] for label in present} and name not in remove]
        if missing:
            self._write("POST", f"issues/{number}/labels", what, {"labels": self._label_ids(missing)})

    def _issue(self, shown: Shown) -> Issue:
        return issue_of(shown, trusted=self._trusts(shown["user"]["login"]))

    def _comments(self, number: int, query: Query | None = None) -> tuple[Comment, ...]:
        with self._commenting(number):
            shown = self._find(f"issues/{number}/comments", f"issue #{number}", query)
        return tuple(self._comment(one) for one in sorted(shown, key=lambda one: int(one["id"])))

    def _comment(self, shown: Shown) -> Comment:
        return comment_of(shown, account=self._account, trusted=self._trusts(shown["user"]["login"]))

    def _listed(self, since: datetime | None) -> Iterator[Listed]:
        """Issues and pull requests, for the index."""
        changed = {"since": since.isoformat()} if since else {}
        return map(_listed, self._client.read_all("issues", {"state": "all", **changed}))

    def _listed_alone(self, number: int) -> Listed | None:
        shown = self._look(f"issues/{number}")
        return _listed(shown) if shown else None

    @contextmanager
    def _commenting(self, number: int) -> Iterator[None]:
        """Gitea fails with a 500 where the issue is not there: tell that from an outage."""
        try:
            yield
        except RemoteUnavailable as outage:
            if self._look(f"issues/{number}") is None:
                raise RemoteFailed(f"there is no issue #{number} in {self._client.web}") from outage
            raise

    def _label_ids(self, names: Iterable[str]) -> list[int]:
        """Issues take labels by id; those that are missing are made."""
        wanted = dict.fromkeys(names)
        known = self._known_labels() if wanted else {}
        return [known[name] if name in known else self._create_label(Label(name, _PLAIN)) for name in wanted]

    def _known_labels(self) -> dict[str, int]:
        """Ids by name; of several labels with one name, which Gitea allows, the oldest counts."""
        shown: list[Any] = self._client.read_all("labels")
        return {label["name"]: label["id"] for label in sorted(shown, key=lambda one: -int(one["id"]))}

    def _create_label(self, label: Label) -> int:
        given = {"name": label.name, "color": f"#{label.color}", "description": label.description}
        return int(self._write("POST", "labels", "place for labels", given)["id"])


def _listed(shown: Shown) -> Listed:
    return Listed(shown["number"], shown["body"] or "", datetime.fromisoformat(shown["updated_at"]))
