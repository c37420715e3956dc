"""The `local` forge: issues, comments, labels and pull requests as Markdown files, made to be read and edited.

labels.yml                       name: {color, description}
issues/0007.md                   front matter (title, state, labels, assignees, author, created_at), then the body
issues/0007/comments/0001.md     front matter (author, created_at), then the body
pulls/0008.md                    the same, and `head`, `base`, `draft`; its comments beside it
pulls/0008/reviews/0001.md       front matter (author, verdict, commit), then the body
checks/{sha}.yml                 name: {state, description, url}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack, get_args

from irontree.domain.issues import Comment, Issue
from irontree.errors import RemoteFailed
from irontree.forges.local_files import (
    LocalFiles,
    file_name,
    modified,
    moment_of,
    numbers,
    read,
    replace,
    state_of,
    take_number,
    title_of,
)
from irontree.forges.markers import as_lines, as_sent, holds_one_of, one_line, shortened
from irontree.ports import (
    Assigned,
    ChangedIssue,
    CheckState,
    CommentMark,
    CommitCheck,
    IssueChanges,
    Label,
    Links,
    Opinion,
    PullRequest,
    PullRequestChanges,
    Reaction,
    RepositoryFacts,
    Review,
    ReviewVerdict,
)

_DESCRIPTION = 500


class LocalForge(LocalFiles):
    """Implements `Forge` on files. An author other than our account is neither ours nor trusted."""

    name = "local"

    # --- issues -------------------------------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue under a number that no issue ever had."""
        with self._writing():
            fields = {"title": one_line(title), "state": "open", "labels": [*dict.fromkeys(labels)]}
            number = self._write_new_issue(fields, body)
        return self._issue(number)

    def read_issue(self, number: int) -> Issue | None:
        """The issue, or the pull request as one; None if there is no such file."""
        return self._issue(number) if self._path(number).exists() else None

    def read_text(self, number: int) -> str | None:
        """The text of the issue or pull request; None if there is no such file."""
        issue = self.read_issue(number)
        return issue.body if issue else None

    def find_issues(self, *markers: str) -> tuple[Issue, ...]:
        """Issues whose body holds one of *markers* as a line of its own, lowest number first."""
        wanted = as_lines(markers)
        return self._still_holding(self._texts.holding(wanted), wanted)

    def find_issues_before(self, number: int, marker: str) -> tuple[Issue, ...]:
        """Those with a lower number than *number*, one of ours; only what came in between is read."""
        wanted = as_lines((marker,))
        return self._still_holding(self._texts.holding_before(number, wanted), wanted)

    def open_issues(self, label: str | None = None) -> tuple[Issue, ...]:
        """Open issues that carry *label*, or all without one, lowest number first."""
        issues = (self._issue(number) for number in numbers(self._issues))
        return tuple(issue for issue in issues if issue.state == "open" and label in (None, *issue.labels))

    def changed_since(self, moment: str) -> tuple[ChangedIssue, ...]:
        """Issues whose file was written at or after *moment*, lowest number first."""
        since = moment_of(moment)
        found = ((number, modified(self._path(number))) for number in numbers(self._issues))
        return tuple(ChangedIssue(self._issue(number), at) for number, at in found if moment_of(at) >= since)

    def assigner(self, number: int, login: str) -> Assigned | None:  # noqa: ARG002
        """Files do not say it."""
        self._must_exist(number)
        return None

    def closer(self, number: int) -> str | None:
        """Files do not say it."""
        self._must_exist(number)
        return None

    def edit_issue(self, number: int, **changes: Unpack[IssueChanges]) -> None:
        """Change what is given, leave the rest of the file as it stands."""
        with self._writing():
            self._change(self._must_exist(number), as_sent(changes))

    # --- comments -----------------------------------------------------------------------------------------

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        self._must_exist(number)
        return tuple(self._comment(number, index) for index in numbers(self._comments(number)))

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments that name a time at or after *moment*, or whose file was written then, oldest first."""
        since = moment_of(moment)
        return tuple(comment for comment in self.comments(number) if moment_of(comment.created_at) >= since)

    def commented_since(self, moment: str) -> tuple[CommentMark, ...]:
        """The same of all issues and pull requests."""
        there = (*numbers(self._issues), *numbers(self._pulls))
        return tuple(
            CommentMark(number, f"{one.id} {one.body}", one.created_at)
            for number in there
            for one in self.comments_since(number, moment)
        )

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        with self._writing():
            self._must_exist(number)
            index = take_number(self._comments(number), numbers(self._comments(number)))
            self._write_new(self._comments(number) / file_name(index), {}, body)
        return self._comment(number, index)

    def react(self, number: int, comment_id: str, reaction: Reaction) -> None:
        """Files show no reactions."""

    def depend(self, number: int, on: int) -> None:
        """The text of the issue says it."""

    def add_part(self, number: int, part: int) -> None:
        """The texts of both issues say it."""

    def assign(self, number: int, logins: Sequence[str]) -> None:
        """Write it into the file as `assignees`."""
        with self._writing():
            self._change(self._must_exist(number), {"assignees": [*logins]})

    # --- labels -------------------------------------------------------------------------------------------

    def ensure_labels(self, labels: Collection[Label]) -> None:
        """Append those that `labels.yml` does not name; what is there stays as it is."""
        path = self._folder / "labels.yml"
        with self._writing():
            text = read(path) if path.exists() else ""
            known = self._mapping(text, path)
            missing = {
                label.name: {"color": label.color, "description": label.description}
                for label in labels
                if label.name not in known
            }
            if missing:
                replace(path, _closed(text) + self._settings.write_mapping(missing))

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove labels of an issue; nothing is written if nothing changes."""
        with self._writing():
            before = self._issue(number)
            wanted = [name for name in dict.fromkeys([*before.labels, *add]) if name not in remove]
            if wanted != [*before.labels]:
                self._change(self._path(number), {"labels": wanted})

    # --- pull requests, reviews and checks -----------------------------------------------------------------

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

    def open_pull_requests(self) -> tuple[PullRequest, ...]:
        """Those that are open, lowest number first."""
        return tuple(pull for number in numbers(self._pulls) if (pull := self._pull(number)).state == "open")

    def edit_pull_request(self, number: int, **changes: Unpack[PullRequestChanges]) -> PullRequest:
        """Change what is given, leave the rest of the file as it stands."""
        with self._writing():
            self._change(self._existing_pull(number), as_sent(changes))
        return self._pull(number)

    def reviews(self, number: int) -> tuple[Review, ...]:
        """The files beside the pull request, in their order."""
        folder = self._existing_pull(number).with_suffix("") / "reviews"
        return tuple(self._review(number, index) for index in numbers(folder))

    def request_reviews(self, number: int, reviewers: Sequence[str]) -> None:
        """Write it into the file as `reviewers`."""
        with self._writing():
            asked = [login for login in reviewers if login != self._account]
            self._change(self._existing_pull(number), {"reviewers": asked})

    def submit_review(self, number: int, opinion: Opinion, body: str, commit: str) -> Review:
        """Write it into a file beside the pull request."""
        with self._writing():
            path = self._existing_pull(number)
            is_ours = self._author(self._document(path)[0]) == self._account
            folder = path.with_suffix("") / "reviews"
            index = take_number(folder, numbers(folder))
            fields = {"verdict": "commented" if is_ours else opinion, "commit": commit}
            self._write_new(folder / file_name(index), fields, body)
        return self._review(number, index)

    def merge_pull_request(self, number: int, head_sha: str) -> None:  # noqa: ARG002  (git merges, nobody else)
        """Raises RemoteFailed: the branches are in a git repository, which this forge only reads."""
        self._existing_pull(number)
        branch = self._pull(number).head_branch
        raise RemoteFailed(f"pull request #{number} is a file, which nobody can merge", remedy=f"git merge {branch}")

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """What `checks/{sha}.yml` says, ordered by name."""
        path = self._folder / "checks" / f"{sha}.yml"
        entries = self._entries(path)
        return tuple(_check(name, entries[name]) for name in sorted(entries))

    def set_commit_status(self, sha: str, *, name: str, state: CheckState, description: str) -> None:
        """Write it there under its name."""
        path = self._folder / "checks" / f"{sha}.yml"
        entry = {"state": state, "description": shortened(description, _DESCRIPTION), "url": ""}
        with self._writing():
            replace(path, self._settings.write_mapping({**self._entries(path), name: entry}))

    def may_write(self, login: str) -> bool:
        """Whether that is the account that we write under."""
        return login == self._account

    def may_push(self, branch: str) -> bool:  # noqa: ARG002
        """No branch is protected there."""
        return True

    def about(self) -> RepositoryFacts:
        """The folder, and the account that we write under."""
        return RepositoryFacts(
            full_name=str(self._folder),
            url=self._folder.absolute().as_uri(),
            default_branch=self._settings.default_branch(),
            account=self._account,
            can_write=True,
        )

    @property
    def links(self) -> Links:
        """No links: issues are files, and no pages show commits and branches."""
        return Links(None)

    # --- internals -------------------------------------------------------------------------------------------

    def _still_holding(self, found: Iterable[int], wanted: frozenset[str]) -> tuple[Issue, ...]:
        issues = (self._issue(number) for number in found if self._path(number).exists())
        return tuple(issue for issue in issues if not issue.pull_request and holds_one_of(issue.body, wanted))

    def _comments(self, number: int) -> Path:
        return self._path(number).with_suffix("") / "comments"

    def _issue(self, number: int) -> Issue:
        path = self._must_exist(number)
        fields, body = self._document(path)
        author = self._author(fields)
        is_pull = path.parent == self._pulls
        return Issue(
            number=number,
            title=title_of(fields, body, f"Issue {number}"),
            body=body,
            state=self._pull(number).state if is_pull else state_of(fields),
            labels=_names(fields.get("labels", [])),
            author=author,
            trusted=author == self._account,
            url=path.absolute().as_uri(),
            pull_request=is_pull,
            assignees=_names(fields.get("assignees", [])),
            created_at=str(fields.get("created_at") or modified(path)),
        )

    def _comment(self, number: int, index: int) -> Comment:
        path = self._comments(number) / file_name(index)
        fields, body = self._document(path)
        author = self._author(fields)
        return Comment(
            id=f"{number}-{index}",
            body=body,
            author=author,
            ours=author == self._account,
            created_at=str(fields.get("created_at") or modified(path)),
            url=path.absolute().as_uri(),
            trusted=author == self._account,
        )

    def _pull(self, number: int) -> PullRequest:
        """As the file and git say: merged is what the base branch contains."""
        path, branches = self._pull_path(number), self._settings.branches
        fields, body = self._document(path)
        head, base = str(fields.get("head", "")), str(fields.get("base", ""))
        sha = branches.tip(head) or str(fields.get("head_sha", ""))
        merge = branches.merge_of(sha, base) if sha else None
        merge_sha, merged_by = merge or (None, None)
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
            merge_sha=merge_sha,
            merged_by=merged_by,
            url=path.absolute().as_uri(),
            requested_reviewers=_names(fields.get("reviewers", [])),
        )

    def _existing_pull(self, number: int) -> Path:
        path = self._pull_path(number)
        if not path.exists():
            raise RemoteFailed(f"there is no pull request #{number} in {self._pulls}")
        return path

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
        )


def _verdict(fields: dict[str, Any]) -> ReviewVerdict:
    """The verdict as typed, in any spelling; a review without a known verdict is a comment."""
    typed = str(fields.get("verdict", "")).strip().lower().replace("-", "_").replace(" ", "_")
    verdicts: tuple[ReviewVerdict, ...] = get_args(ReviewVerdict)
    return next((verdict for verdict in verdicts if verdict == typed), "commented")


def _check(name: str, entry: object) -> CommitCheck:
    fields = entry if isinstance(entry, dict) else {}
    states: dict[str, CheckState] = {state: state for state in get_args(CheckState)}
    state = states.get(str(fields.get("state", "")), "pending")
    return CommitCheck(name, state, str(fields.get("description", "")))


def _names(typed: object) -> tuple[str, ...]:
    """Labels or accounts as a list, or as the one word that was typed."""
    return tuple(map(str, typed)) if isinstance(typed, list) else (str(typed),)


def _closed(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"
