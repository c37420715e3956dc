"""The forge that keeps its issues in memory: the shipped double for tests and trial runs."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack

from irontree.domain.issues import Comment, Issue
from irontree.domain.timestamps import utc_text
from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.markers import LineIndex, as_kept, as_lines, as_sent, behind, holds_one_of, one_line
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
)


class Issues(UserDict[int, Issue]):
    """Issues by number, however they are put in, and an index of the lines of their texts."""

    def __init__(self) -> None:
        self.lines = LineIndex()
        self.changed: dict[int, str] = {}
        """When, where that is known: what somebody puts in here counts as changed in every look."""
        super().__init__()

    def __setitem__(self, number: int, issue: Issue) -> None:
        super().__setitem__(number, issue)
        self.lines.put(number, issue.body)
        self.changed.pop(number, None)

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        self.lines.drop(number)


@dataclass(slots=True)
class Tracker:
    """Set `outage` and every call fails until it is cleared."""

    issues: Issues = field(default_factory=Issues)
    """Pull requests too."""
    comments: dict[int, list[Comment]] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    reactions: dict[str, set[tuple[str, Reaction]]] = field(default_factory=dict)
    """By the comment's id, each with its account."""
    assignees: dict[int, tuple[str, ...]] = field(default_factory=dict)
    assigners: dict[tuple[int, str], Assigned] = field(default_factory=dict)
    """Who assigned an account to an issue last, and when."""
    closers: dict[int, str] = field(default_factory=dict)
    requested: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Who was asked to review a pull request."""
    dependencies: dict[int, list[int]] = field(default_factory=dict)
    """What each issue waits for."""
    parts: dict[int, list[int]] = field(default_factory=dict)
    handed_in: dict[int, list[Review]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    """Branches that were pushed, with their commits."""
    checks: dict[str, dict[str, CommitCheck]] = field(default_factory=dict)
    """By commit and name."""
    writers: set[str] = field(default_factory=set)
    """Accounts with write access, besides the one that asks."""
    outage: str | None = None
    lost_answers: int = 0
    """So many of the next writes take effect, but no answer comes."""
    lag: int = 0
    """So many of the newest issues are not in listings yet."""
    breaks_behind: int | None = None
    """A listing of more issues than this breaks off on its way."""

    def check(self, sha: str, check: CommitCheck) -> None:
        """Set the result of a CI check."""
        self.checks.setdefault(sha, {})[check.name] = check


T = TypeVar("T")


class MemoryForge:
    """Implements `Forge`. Two forges on one `Tracker` with different accounts are strangers to each other."""

    name = "memory"

    def __init__(self, settings: ForgeSettings, tracker: Tracker | None = None) -> None:
        self._account = settings.account
        self._is_agent = settings.is_agent
        self._clock = settings.clock
        self._tracker = tracker or Tracker()

    @property
    def tracker(self) -> Tracker:
        """The shared contents; raises RemoteUnavailable during an outage, so every call goes through here."""
        self._require_up()
        return self._tracker

    # --- issues -------------------------------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        number = self._add(title, body, labels)
        return self._answered(self._issue(number))

    def read_issue(self, number: int) -> Issue | None:
        return self._issue(number) if number in self.tracker.issues else None

    def read_text(self, number: int) -> str | None:
        issue = self.read_issue(number)
        return issue.body if issue else None

    def find_issues(self, *markers: str) -> tuple[Issue, ...]:
        tracker, wanted = self.tracker, as_lines(markers)
        if tracker.lag or tracker.breaks_behind is not None:
            listed = tuple(self._listed())
            newer = behind(listed[-1].number if listed else 0, self.read_issue)
            found: Iterable[Issue] = (issue for issue in (*listed, *newer) if holds_one_of(issue.body, wanted))
        else:
            found = map(self._issue, tracker.issues.lines.holding(wanted))
        return tuple(issue for issue in found if not issue.pull_request)

    def find_issues_before(self, number: int, marker: str) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.find_issues(marker) if issue.number < number)

    def open_issues(self, label: str | None = None) -> tuple[Issue, ...]:
        wanted = (issue for issue in self._listed() if issue.state == "open" and label in (None, *issue.labels))
        return tuple(issue for issue in wanted if not issue.pull_request)

    def changed_since(self, moment: str) -> tuple[ChangedIssue, ...]:
        known = self.tracker.issues.changed
        marked = (ChangedIssue(one, known.get(one.number) or self._stamp()) for one in self._listed())
        return tuple(one for one in marked if not one.issue.pull_request and one.at >= moment)

    def assigner(self, number: int, login: str) -> Assigned | None:
        return self.tracker.assigners.get((self._issue(number).number, login))

    def closer(self, number: int) -> str | None:
        return self.tracker.closers.get(number) if self._issue(number).state == "closed" else None

    def edit_issue(self, number: int, **changes: Unpack[IssueChanges]) -> None:
        if changes.get("state") == "closed":
            self.tracker.closers[number] = self._account
        self._edited(number, as_sent(changes))

    # --- comments -----------------------------------------------------------------------------------------

    def comments(self, number: int) -> tuple[Comment, ...]:
        self._issue(number)
        posted = self.tracker.comments.get(number, [])
        return tuple(c._replace(ours=c.author == self._account, trusted=self._trusts(c.author)) for c in posted)

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted at or after *moment*, oldest first, and edited ones."""
        return tuple(comment for comment in self.comments(number) if comment.edited or comment.created_at >= moment)

    def commented_since(self, moment: str) -> tuple[CommentMark, ...]:
        """An edited comment is always among them: when it was edited is not kept."""
        posted = ((number, one) for number, those in self.tracker.comments.items() for one in those)
        recent = ((number, one) for number, one in posted if one.edited or one.created_at >= moment)
        return tuple(CommentMark(number, f"{one.id} {one.body}", one.created_at) for number, one in recent)

    def post_comment(self, number: int, body: str) -> Comment:
        self._issue(number)
        posted = self.tracker.comments.setdefault(number, [])
        comment = Comment(
            id=f"{number}-{len(posted) + 1}",
            body=as_kept(body),
            author=self._account,
            ours=True,
            created_at=self._stamp(),
            url=f"memory:issue-{number}#{len(posted) + 1}",
            trusted=True,
        )
        posted.append(comment)
        self.tracker.issues.changed[number] = comment.created_at
        return self._answered(comment)

    def react(self, number: int, comment_id: str, reaction: Reaction) -> None:
        self._issue(number)
        self.tracker.reactions.setdefault(comment_id, set()).add((self._account, reaction))
        self._answered(reaction)

    def depend(self, number: int, on: int) -> None:
        self._issue(on)
        self.tracker.dependencies.setdefault(self._issue(number).number, []).append(on)

    def add_part(self, number: int, part: int) -> None:
        self._issue(part)
        self.tracker.parts.setdefault(self._issue(number).number, []).append(part)

    def assign(self, number: int, logins: Sequence[str]) -> None:
        before = self._issue(number).assignees
        by_us = Assigned(self._account, self._stamp())
        self.tracker.assigners |= {(number, login): by_us for login in logins if login not in before}
        self.tracker.assignees[number] = tuple(logins)
        self._edited(number, {})

    # --- labels -------------------------------------------------------------------------------------------

    def ensure_labels(self, labels: Collection[Label]) -> None:
        for label in labels:
            self.tracker.labels.setdefault(label.name, label)

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        old = self._issue(number)
        wanted = (name for name in dict.fromkeys([*old.labels, *add]) if name not in remove)
        self._edited(number, {"labels": tuple(wanted)})

    @property
    def links(self) -> Links:
        """Addresses that lead nowhere."""
        return Links("https://forge.example")

    # --- pull requests ------------------------------------------------------------------------------------

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        if head not in self.tracker.branches or self.tracker.branches[head] == self.tracker.branches.get(base):
            raise RemoteFailed(f"branch {head} has nothing to merge into {base}")
        if any(pull.state == "open" and pull.base_branch == base for pull in self.find_pull_requests(head)):
            raise RemoteFailed(f"branch {head} has an open pull request into {base} already")
        number = self._add(title, body, (), is_pull=True)
        self.tracker.pulls[number] = PullRequest(
            number=number,
            title=one_line(title),
            body=as_kept(body),
            state="open",
            merged=False,
            draft=draft,
            head_branch=head,
            head_sha=self.tracker.branches[head],
            base_branch=base,
            merge_sha=None,
            merged_by=None,
            url=f"memory:issue-{number}",
        )
        return self._answered(self._pull(number))

    def read_pull_request(self, number: int) -> PullRequest | None:
        return self._pull(number) if number in self.tracker.pulls else None

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        pulls = (self._pull(number) for number in sorted(self.tracker.pulls))
        return tuple(pull for pull in pulls if pull.head_branch == head)

    def open_pull_requests(self) -> tuple[PullRequest, ...]:
        pulls = (self._pull(number) for number in sorted(self.tracker.pulls))
        return tuple(pull for pull in pulls if pull.state == "open")

    def edit_pull_request(self, number: int, **changes: Unpack[PullRequestChanges]) -> PullRequest:
        old, given = self._pull(number), as_sent(changes)
        draft = given.pop("draft", old.draft)
        self._edited(number, given)
        self.tracker.pulls[number] = old._replace(draft=draft)
        return self._pull(number)

    def reviews(self, number: int) -> tuple[Review, ...]:
        self._pull(number)
        return tuple(self._seen(review) for review in self.tracker.handed_in.get(number, []))

    def request_reviews(self, number: int, reviewers: Sequence[str]) -> None:
        self._pull(number)
        asked = tuple(login for login in reviewers if login != self._account)
        self._answered(self.tracker.requested.update({number: asked}))

    def submit_review(self, number: int, opinion: Opinion, body: str, commit: str) -> Review:
        handed_in = self.tracker.handed_in.setdefault(self._pull(number).number, [])
        given = "commented" if self._issue(number).author == self._account else opinion
        review = Review(f"{number}-{len(handed_in) + 1}", self._account, False, given, as_kept(body), commit)
        handed_in.append(review)
        waiting = self.tracker.requested.get(number, ())
        self.tracker.requested[number] = tuple(login for login in waiting if login != self._account)
        return self._answered(self._seen(review))

    def merge_pull_request(self, number: int, head_sha: str) -> None:
        pull = self._pull(number)
        if pull.state != "open" or pull.draft or pull.head_sha != head_sha:
            raise RemoteFailed(f"pull request #{number} was not merged: it is closed, a draft, or at another commit")
        merged = pull._replace(merged=True, merge_sha=f"{number:040x}", merged_by=self._account)
        self.tracker.pulls[number] = merged
        self.edit_issue(number, state="closed")

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        checks = self.tracker.checks.get(sha, {})
        return tuple(checks[name] for name in sorted(checks))

    def set_commit_status(self, sha: str, *, name: str, state: CheckState, description: str) -> None:
        check = CommitCheck(name, state, one_line(description))
        self.tracker.check(sha, check)
        self._answered(check)

    def may_write(self, login: str) -> bool:
        self._require_up()
        return self._trusts(login)

    def may_push(self, branch: str) -> bool:  # noqa: ARG002
        """No branch is protected there."""
        return True

    def about(self) -> RepositoryFacts:
        """The facts of an in-memory repository."""
        self._require_up()
        return RepositoryFacts(
            full_name="memory/memory",
            url="https://forge.example",
            default_branch="main",
            account=self._account,
            can_write=True,
        )

    # --- internals ------------------------------------------------------------------------------------------

    def _require_up(self) -> None:
        if self._tracker.outage:
            raise RemoteUnavailable(self._tracker.outage)

    def _add(self, title: str, body: str, labels: Sequence[str], *, is_pull: bool = False) -> int:
        number, now = len(self.tracker.issues) + 1, self._stamp()
        self.tracker.issues[number] = Issue(
            number=number,
            title=one_line(title),
            body=as_kept(body),
            state="open",
            labels=tuple(dict.fromkeys(labels)),
            author=self._account,
            trusted=True,
            url=f"memory:issue-{number}",
            pull_request=is_pull,
            created_at=now,
        )
        self.tracker.issues.changed[number] = now
        return number

    def _edited(self, number: int, given: dict[str, Any]) -> Issue:
        self.tracker.issues[number] = self._issue(number)._replace(**given)
        self.tracker.issues.changed[number] = self._stamp()
        return self._answered(self._issue(number))

    def _answered(self, answer: T) -> T:
        """The answer to a write, unless it is lost on its way."""
        if self.tracker.lost_answers:
            self.tracker.lost_answers -= 1
            raise RemoteUnavailable("the connection broke before the answer came")
        return answer

    def _listed(self) -> Iterator[Issue]:
        """What a listing shows, lowest number first."""
        numbers = sorted(self.tracker.issues)
        for index, number in enumerate(numbers[: len(numbers) - self.tracker.lag]):
            if self.tracker.breaks_behind is not None and index >= self.tracker.breaks_behind:
                raise RemoteUnavailable("the listing broke off")
            yield self._issue(number)

    def _issue(self, number: int) -> Issue:
        if number not in self.tracker.issues:
            raise RemoteFailed(f"there is no issue #{number} in memory")
        issue = self.tracker.issues[number]
        trusted = issue.author == self._account or self._trusts(issue.author)
        return issue._replace(trusted=trusted, assignees=self.tracker.assignees.get(number, ()))

    def _pull(self, number: int) -> PullRequest:
        if number not in self.tracker.pulls:
            raise RemoteFailed(f"there is no pull request #{number} in memory")
        pull, issue = self.tracker.pulls[number], self._issue(number)
        tip = pull.head_sha if pull.merged else self.tracker.branches.get(pull.head_branch, pull.head_sha)
        now = pull._replace(title=issue.title, body=issue.body, state=issue.state, head_sha=tip)
        return now._replace(requested_reviewers=self.tracker.requested.get(number, ()))

    def _seen(self, review: Review) -> Review:
        trusted = self._trusts(review.author)
        remarks = tuple(remark._replace(trusted=self._trusts(remark.author)) for remark in review.remarks)
        return review._replace(trusted=trusted, remarks=remarks)

    def _stamp(self) -> str:
        return utc_text(self._clock.now())

    def _trusts(self, author: str) -> bool:
        return not self._is_agent(author) and (author == self._account or author in self._tracker.writers)
