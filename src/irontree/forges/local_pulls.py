"""Pull requests of the `local` forge: a person merges with plain git and reviews by writing a file."""

from __future__ import annotations

from typing import Any, Literal, get_args

from irontree.errors import RemoteFailed
from irontree.forges.local_files import LocalFiles, file_name, modified, numbers, replace, state_of, title_of
from irontree.forges.text import one_line, shortened
from irontree.ports import CheckState, CommitCheck, PullRequest, RepositoryFacts, Review, ReviewVerdict

_DESCRIPTION = 500


class LocalPullRequests(LocalFiles):
    """Implements `PullRequests`, `Checks` and `About`."""

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Write the request down under the next number of the issues."""
        sha = self._settings.branches.tip(head)
        if sha is None:
            raise RemoteFailed(f"there is no branch {head} to ask a merge of", remedy="push or create it first")
        if self._settings.branches.merge_of(sha, base):
            raise RemoteFailed(f"branch {head} has nothing that {base} has not")
        if any(pull.state == "open" and pull.base_branch == base for pull in self.find_pull_requests(head)):
            raise RemoteFailed(f"branch {head} has an open pull request into {base} already")
        with self._writing():
            number = self._next_number()
            fields = {"title": one_line(title), "state": "open", "draft": draft, "head": head, "base": base}
            self._write_new(self._pull_path(number), {**fields, "head_sha": sha}, body)
        return self._pull(number)

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is no such file."""
        return self._pull(number) if self._pull_path(number).exists() else None

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head*, lowest number first."""
        pulls = (self._pull(number) for number in numbers(self._pulls))
        return tuple(pull for pull in pulls if pull.head_branch == head)

    def edit_pull_request(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
        draft: bool | None = None,
    ) -> PullRequest:
        """Change what is given, leave the rest of the file as it stands."""
        changes = {"title": None if title is None else one_line(title), "state": state, "draft": draft}
        with self._writing():
            if not self._pull_path(number).exists():
                raise RemoteFailed(f"there is no pull request #{number} in {self._pulls}")
            given = {key: value for key, value in changes.items() if value is not None}
            self._change(self._pull_path(number), given, body)
        return self._pull(number)

    def reviews(self, number: int) -> tuple[Review, ...]:
        """The files beside the pull request, in their order."""
        if not self._pull_path(number).exists():
            raise RemoteFailed(f"there is no pull request #{number} in {self._pulls}")
        folder = self._pull_path(number).with_suffix("") / "reviews"
        return tuple(self._review(number, index) for index in numbers(folder))

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """What `checks/{sha}.yml` says, ordered by name."""
        path = self._folder / "checks" / f"{sha}.yml"
        entries = self._entries(path)
        return tuple(_check(name, entries[name]) for name in sorted(entries))

    def set_commit_status(
        self, sha: str, *, name: str, state: CheckState, description: str, url: str | None = None
    ) -> None:
        """Write it there under its name."""
        path = self._folder / "checks" / f"{sha}.yml"
        entry = {"state": state, "description": shortened(description, _DESCRIPTION), "url": url or ""}
        with self._writing():
            replace(path, self._settings.write_mapping({**self._entries(path), name: entry}))

    def may_write(self, login: str) -> bool:
        """Whether that is the account that we write under."""
        return login == self._account

    def about(self) -> RepositoryFacts:
        """The folder, and the account that we write under."""
        return RepositoryFacts(
            full_name=str(self._folder),
            url=self._folder.absolute().as_uri(),
            default_branch=self._settings.branches.default(),
            account=self._account,
            can_write=True,
            archived=False,
            has_issues=True,
        )

    def _pull(self, number: int) -> PullRequest:
        """As the file and git say: merged is what the base branch contains."""
        path, branches = self._pull_path(number), self._settings.branches
        fields, body = self._document(path)
        head, base = str(fields.get("head", "")), str(fields.get("base", ""))
        sha = branches.tip(head) or str(fields.get("head_sha", ""))
        merge = branches.merge_of(sha, base) if sha else None
        return PullRequest(
            number=number,
            title=title_of(fields, body, f"Pull request {number}"),
            body=body,
            state="closed" if merge else state_of(fields),
            merged=merge is not None,
            draft=str(fields.get("draft", "")).lower() in {"true", "yes"},
            head_branch=head,
            head_sha=sha,
            base_branch=base,
            merge_sha=merge.sha if merge else None,
            merged_by=merge.by if merge else None,
            mergeable=None,
            author=self._author(fields),
            url=path.absolute().as_uri(),
        )

    def _review(self, number: int, index: int) -> Review:
        path = self._pull_path(number).with_suffix("") / "reviews" / file_name(index)
        fields, body = self._document(path)
        author = self._author(fields)
        return Review(
            id=f"{number}-{index}",
            author=author,
            trusted=author == self._account,
            verdict=_verdict(fields),
            body=body,
            commit=str(fields.get("commit", "")),
            submitted_at=str(fields.get("created_at") or modified(path)),
            url=path.absolute().as_uri(),
        )


def _verdict(fields: dict[str, Any]) -> ReviewVerdict:
    """What a person typed, in any spelling; a review without a word that is known is a comment."""
    typed = str(fields.get("verdict", "")).strip().lower().replace("-", "_").replace(" ", "_")
    verdicts: tuple[ReviewVerdict, ...] = get_args(ReviewVerdict)
    return next((verdict for verdict in verdicts if verdict == typed), "commented")


def _check(name: str, entry: object) -> CommitCheck:
    fields = entry if isinstance(entry, dict) else {}
    states: dict[str, CheckState] = {state: state for state in get_args(CheckState)}
    state = states.get(str(fields.get("state", "")), "pending")
    return CommitCheck(name, state, str(fields.get("description", "")), str(fields.get("url", "")))
