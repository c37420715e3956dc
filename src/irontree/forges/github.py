"""The `github` forge: github.com, GitHub Enterprise Cloud and Server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

from irontree.errors import AccessRefused
from irontree.forges import ForgeSettings
from irontree.forges import github_values as values
from irontree.forges.github_pulls import BODY, GithubPullRequests, fitting
from irontree.forges.issue_index import IssueIndex, Listed
from irontree.forges.text import as_kept, holds_line, require_fits, shortened
from irontree.ports import Comment, Issue, Label

_LABEL_DESCRIPTION = 100


class GithubForge(GithubPullRequests):
    """Implements `Forge`. Nothing is asked before it is needed: making one needs neither network nor token."""

    name = "github"

    def __init__(self, settings: ForgeSettings) -> None:
        super().__init__(settings)
        self._index = IssueIndex(self._listed, self._listed_alone)

    # --- issues -------------------------------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue."""
        text = fitting(title, body, "the issue")
        data = self._client.write("POST", self._client.path("issues"), {**text, "labels": list(dict.fromkeys(labels))})
        return self._issue(data)

    def read_issue(self, number: int) -> Issue | None:
        """The issue, or the pull request as one; None if there is none (any more)."""
        data = self._read(number)
        return None if data is None else self._issue(data)

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, lowest number first."""
        candidates = (self.read_issue(number) for number in self._index.numbers(marker))
        return tuple(issue for issue in candidates if issue and holds_line(issue.body, marker))

    def open_issues(self, label: str) -> tuple[Issue, ...]:
        """Open issues that carry *label*, oldest first; pull requests left out."""
        query = {"state": "open", "labels": label, "sort": "created", "direction": "asc"}
        listed = self._client.pages(self._client.path("issues"), **query)
        return tuple(self._issue(data) for data in listed if not values.is_pull(data))

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest."""
        changes = fitting(title, body, f"issue #{number}") | ({"state": state} if state else {})
        return self._issue(self._touch("PATCH", number, (), changes))

    # --- comments -----------------------------------------------------------------------------------------

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        self._existing(number)
        listed = self._client.pages(self._client.path("issues", number, "comments"))
        return tuple(self._comment(data) for data in listed)

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment*, oldest first."""
        with self._of(number):
            listed = self._client.pages_again(self._client.path("issues", number, "comments"), since=moment)
            return tuple(self._comment(data) for data in listed)

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        return self._comment(self._touch("POST", number, ("comments",), self._comment_text(body)))

    def edit_comment(self, number: int, comment_id: str, body: str) -> Comment:
        """Put *body* in place of its text."""
        path = self._client.path("issues", "comments", comment_id)
        self._present(self._client.read(path), f"comment {comment_id} on issue #{number}")
        return self._comment(self._client.write("PATCH", path, self._comment_text(body)))

    # --- labels -------------------------------------------------------------------------------------------

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Create those that are missing; names differ by more than case."""
        path = self._client.path("labels")
        known = {data["name"].casefold() for data in self._client.pages(path)}
        for label in labels:
            if label.name.casefold() not in known:
                described = {"description": shortened(label.description, _LABEL_DESCRIPTION)}
                self._client.write("POST", path, {"name": label.name, "color": label.color.lower(), **described})

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove what has to be; nothing is sent if nothing changes."""
        present = {label.casefold(): label for label in self._issue(self._existing(number)).labels}
        missing = [name for name in dict.fromkeys(add) if name.casefold() not in present and name not in remove]
        if missing:
            self._touch("POST", number, ("labels",), {"labels": missing})
        for name in remove:
            if name.casefold() in present:
                answer = self._client.ask("DELETE", self._client.path("issues", number, "labels", name))
                if answer.status != 404:  # noqa: PLR2004  (somebody was faster)
                    self._client.require(answer)

    def issue_url(self, number: int) -> str | None:
        """Its page."""
        return f"{self._page}/issues/{number}"

    def commit_url(self, sha: str | None) -> str | None:
        """Its page."""
        return f"{self._page}/commit/{sha}" if sha else None

    def file_url(self, branch: str, path: str) -> str | None:
        """Its page."""
        return f"{self._page}/blob/{branch}/{path}"

    # --- what is behind it --------------------------------------------------------------------------------

    @property
    def _page(self) -> str:
        """Asked of nobody: texts are written during an outage too, and GitHub sends people on from an old name."""
        return f"{self._client.url}/{self._client.configured_name}"

    def _listed(self, since: datetime | None) -> Iterator[Listed]:
        query = {"state": "all", "sort": "created", "direction": "asc"}
        if since:
            query["since"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (values.listed(data) for data in self._client.pages(self._client.path("issues"), **query))

    def _listed_alone(self, number: int) -> Listed | None:
        data = self._read(number)
        return None if data is None else values.listed(data)

    def _read(self, number: int) -> Any:
        """The issue as JSON; one that was transferred is shown as what it became elsewhere, and is not here."""
        data = self._client.read(self._client.path("issues", number))
        home = f"/repos/{self._client.repository()['full_name']}"
        return data if data and data["number"] == number and data["repository_url"].endswith(home) else None

    def _existing(self, number: int) -> Any:
        return self._present(self._read(number), f"issue #{number}")

    def _touch(self, verb: str, number: int, below: tuple[str, ...], body: dict[str, Any]) -> Any:
        """Change something of an issue."""
        with self._of(number):
            return self._client.write(verb, self._client.path("issues", number, *below), body)

    @contextmanager
    def _of(self, number: int) -> Iterator[None]:
        """GitHub answers alike for an issue that is not there and for a repository that it hides: tell them apart."""
        try:
            yield
        except AccessRefused as refused:
            if refused.reason in {"not-found", "issues-disabled"}:
                self._existing(number)
            raise

    def _issue(self, data: Any) -> Issue:
        return values.issue(data, trusted=self._trusts(data))

    def _comment(self, data: Any) -> Comment:
        return values.comment(data, ours=self._ours(data), trusted=self._trusts(data))

    def _comment_text(self, body: str) -> dict[str, str]:
        require_fits(as_kept(body), BODY, "the comment")
        return {"body": as_kept(body)}
