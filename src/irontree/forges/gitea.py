"""The `gitea` forge: issues and pull requests on a Gitea or Forgejo server, over its REST API (version 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, Unpack
from urllib.parse import quote

from irontree.domain.issues import Comment, Issue
from irontree.domain.timestamps import parsed
from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges import rest_values as rest
from irontree.forges.gitea_http import GiteaClient, Query
from irontree.forges.gitea_writers import GiteaRights
from irontree.forges.http_answers import refused_as
from irontree.forges.markers import IssueIndex, ListedIssue, as_kept, as_sent, one_line, shortened
from irontree.forges.writers import KnownWriters
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
    Remark,
    RepositoryFacts,
    Review,
)

_SCOPE_PROBES: Final = {"issues/0": "write:issue", "pulls/0": "write:repository"}
_PLAIN: Final = "ededed"
"""The colour of a label that has no description."""
_DESCRIPTION: Final = 255
_ENDS: Final = {"close", "merge_pull"}


class GiteaForge:
    """Implements `Forge`. Forgejo answers the same calls in the same way.

    Asks nothing before the first call: it needs neither a token nor a network to be made.
    """

    name = "gitea"

    def __init__(self, settings: ForgeSettings) -> None:
        self._client = GiteaClient(settings)
        self._is_agent = settings.is_agent
        self._rights = GiteaRights(self._client)
        self._writers = KnownWriters(settings.clock, self._is_known)
        self._labels: dict[str, int] = {}
        """Ids by name, as they were when they were last read or made."""
        self._index = IssueIndex(self._listed, self._listed_alone)

    # --- issues, comments and labels -----------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue; labels that the repository does not have are made first."""
        ids = self._label_ids(labels)
        given = {"title": one_line(title), "body": as_kept(body), "labels": ids}
        shown = self._written_by_us(self._write("POST", "issues", "place for issues", given))
        self._index.add(rest.listed(shown))
        issue = rest.gitea_issue(shown, trusted=True)
        if not {*labels} <= {*issue.labels}:  # one was deleted meanwhile, or we may not set any
            self._labels.clear()
        return issue

    def read_issue(self, number: int) -> Issue | None:
        """The issue or pull request; None if there is none."""
        shown = self._look(f"issues/{number}")
        return self._issue(shown) if shown else None

    def read_text(self, number: int) -> str | None:
        """The text of the issue or pull request; None if there is none."""
        shown = self._look(f"issues/{number}")
        return rest.text_of(shown) if shown else None

    def find_issues(self, *markers: str) -> tuple[Issue, ...]:
        """Issues whose body holds one of *markers* as a line of its own, lowest number first."""
        return self._index.find(markers, self.read_issue)

    def find_issues_before(self, number: int, marker: str) -> tuple[Issue, ...]:
        """Those with a lower number; Gitea gives numbers under a lock that is held until the issue is there."""
        return self._index.find_before(number, [marker], self.read_issue)

    def open_issues(self, label: str | None = None) -> tuple[Issue, ...]:
        """Open issues that carry *label*, or all without one, lowest number first; pull requests left out.

        Gitea takes a label that does not exist out of its filter, so that all issues pass; a comma separates labels.
        """
        filters = {} if label is None or "," in label else {"labels": label}
        listed = self._client.read_all("issues", {"state": "open", "type": "issues", **filters})
        names = ((shown, {known["name"] for known in shown["labels"] or ()}) for shown in listed)
        carrying = (shown for shown, known in names if label is None or label in known)
        return tuple(map(self._issue, sorted(carrying, key=lambda shown: int(shown["number"]))))

    def changed_since(self, moment: str) -> tuple[ChangedIssue, ...]:
        """Issues that changed at or after *moment*, lowest number first; one with a new comment is among them."""
        listed = self._client.read_all("issues", {"state": "all", "type": "issues", "since": moment})
        in_order = sorted(listed, key=lambda shown: int(shown["number"]))
        return tuple(rest.changed_issue(self._issue(shown), shown) for shown in in_order)

    def assigner(self, number: int, login: str) -> Assigned | None:
        """Who last assigned *login*, and when."""
        given = (one for one in self._timeline(number) if one["type"] == "assignees" and not one["removed_assignee"])
        theirs = [one for one in given if (rest.login_of(one["assignee"]) or "").casefold() == login.casefold()]
        by = self._doer(theirs)
        return Assigned(by, rest.utc(theirs[-1]["created_at"])) if by else None

    def closer(self, number: int) -> str | None:
        """The account that closed it; of a request, the one that merged it."""
        ended = [one for one in self._timeline(number) if one["type"] in _ENDS | {"reopen"}]
        return self._doer(ended) if ended and ended[-1]["type"] in _ENDS else None

    def edit_issue(self, number: int, **changes: Unpack[IssueChanges]) -> None:
        """Change what is given, leave the rest."""
        self._write("PATCH", f"issues/{number}", f"issue #{number}", as_sent(changes))

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first; Gitea gives them all at once."""
        return self._comments(number)

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment*, oldest first. Gitea's API has no ETags."""
        return self._comments(number, {"since": moment})

    def commented_since(self, moment: str) -> tuple[CommentMark, ...]:
        """Where comments were posted or edited at or after *moment*."""
        return tuple(map(rest.comment_mark, self._client.read_all("issues/comments", {"since": moment})))

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        with self._commenting(number):
            given = {"body": as_kept(body)}
            posted = self._write("POST", f"issues/{number}/comments", f"issue #{number}", given)
        return rest.comment_of(self._written_by_us(posted), ours=True, trusted=True)

    def react(self, number: int, comment_id: str, reaction: Reaction) -> None:  # noqa: ARG002  (the id is enough)
        """Show our account's reaction to a comment."""
        given = {"content": reaction}
        self._write("POST", f"issues/comments/{comment_id}/reactions", f"comment {comment_id}", given)

    def depend(self, number: int, on: int) -> None:
        """Show that an issue waits for another; the repository may have dependencies switched off."""
        owner, name = self._client.web.split("/")[-2:]
        given = {"index": on, "owner": owner, "repo": name}
        self._client.send("POST", f"issues/{number}/dependencies", given)  # 404: switched off

    def add_part(self, number: int, part: int) -> None:
        """Gitea's issues have no parts."""

    def assign(self, number: int, logins: Sequence[str]) -> None:
        """Assign these accounts to what was just made: Gitea replaces the assignees."""
        self._write("PATCH", f"issues/{number}", f"issue #{number}", {"assignees": [*logins]})

    def ensure_labels(self, labels: Collection[Label]) -> None:
        """Create those that are missing; leave existing ones as they are."""
        self._know_labels(label.name for label in labels)
        for label in labels:
            if label.name not in self._labels:
                self._create_label(label)

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove; what is there already, or not there, is no error. What we add tells what is there."""
        what, wanted = f"issue #{number}", [name for name in add if name not in remove]
        present = self._add_labels(number, wanted) if wanted else self._find(f"issues/{number}", what)["labels"] or ()
        for label in present:
            if label["name"] in remove:
                self._write("DELETE", f"issues/{number}/labels/{label['id']}", what)

    # --- pull requests, reviews and commit statuses --------------------------------------------------------

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head* into *base*; a draft is one whose title begins with `WIP:`."""
        text = {"title": rest.with_wip(one_line(title), draft=draft), "body": as_kept(body)}
        with refused_as(f"no pull request of {head} for {base}"):
            shown = self._write("POST", "pulls", f"branch {head} or {base}", {"head": head, "base": base, **text})
        return rest.gitea_pull(self._without_idle_prefix(shown))

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none, or the number is an issue's."""
        shown = self._look(f"pulls/{number}")
        return rest.gitea_pull(shown) if shown else None

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, in any state, lowest number first."""
        shown = self._client.read_all("pulls", {"state": "all"})
        ours = (rest.gitea_pull(one) for one in shown if rest.is_of_our_branch(one, head))
        return tuple(sorted(ours, key=lambda pull: pull.number))

    def open_pull_requests(self) -> tuple[PullRequest, ...]:
        """Those that are open, lowest number first."""
        shown = map(rest.gitea_pull, self._client.read_all("pulls", {"state": "open"}))
        return tuple(sorted(shown, key=lambda pull: pull.number))

    def edit_pull_request(self, number: int, **changes: Unpack[PullRequestChanges]) -> PullRequest:
        """Change what is given, leave the rest."""
        what, given = f"pull request #{number}", as_sent(changes)
        draft = given.pop("draft", None)
        if draft is not None or "title" in given:
            given["title"] = self._new_title(self._find(f"pulls/{number}", what), given.get("title"), draft=draft)
        return rest.gitea_pull(self._without_idle_prefix(self._write("PATCH", f"pulls/{number}", what, given)))

    def reviews(self, number: int) -> tuple[Review, ...]:
        """What was handed in, oldest first, each with its remarks; Gitea also counts what is not handed in yet."""
        self._find(f"pulls/{number}", f"pull request #{number}")
        shown = self._client.read_all(f"pulls/{number}/reviews", counted=False)
        oldest_first = sorted(map(self._attributed, shown), key=lambda one: int(one["id"]))
        return tuple(
            rest.review_of(one, verdict, self._remarks(number, one), trusted=self._trusts(one))
            for one in oldest_first
            if (verdict := rest.verdict_of(one))
        )

    def request_reviews(self, number: int, reviewers: Sequence[str]) -> None:
        """Ask accounts and teams to review. Gitea itself asks those of CODEOWNERS (`services/issue/pull.go`)."""
        if given := rest.requested(reviewers, besides=self._account):
            self._write("POST", f"pulls/{number}/requested_reviewers", f"pull request #{number}", given)

    def submit_review(self, number: int, opinion: Opinion, body: str, commit: str) -> Review:
        """Hand in our review; Gitea refuses to approve one's own request, and to ask for changes of it."""
        what = f"pull request #{number}"
        is_ours = rest.author_of(self._find(f"pulls/{number}", what)) == self._account
        given = {"event": rest.GITEA_EVENTS["commented" if is_ours else opinion], "body": as_kept(body)}
        with refused_as(f"no review of {what}"):
            shown = self._write("POST", f"pulls/{number}/reviews", what, {**given, "commit_id": commit})
        written = self._written_by_us(shown)
        return rest.review_of(written, rest.verdict_of(written) or opinion, (), trusted=self._trusts(written))

    def merge_pull_request(self, number: int, head_sha: str) -> None:
        """Merge it if that is its head."""
        what, style = f"pull request #{number}", rest.gitea_merge_style(self._find("", "repository"))
        with refused_as(f"{what} was not merged"):
            self._write("POST", f"pulls/{number}/merge", what, {"Do": style, "head_commit_id": head_sha})

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """The newest status of each name, ordered by name; the API has no way from a status to its log."""
        return rest.checks_of(self._client.read_all(f"statuses/{sha}"))

    def set_commit_status(self, sha: str, *, name: str, state: CheckState, description: str) -> None:
        """Set the commit's status under *name*."""
        given = {"context": name, "state": state, "description": shortened(description, _DESCRIPTION)}
        self._write("POST", f"statuses/{sha}", f"commit {sha}", given)

    def about(self) -> RepositoryFacts:
        """Our account, its rights in the repository, and those of its token."""
        found = self._find("", "repository")
        self._created = parsed(found["created_at"])
        facts = rest.facts_of(found, self._account, can_write=found["permissions"]["push"])
        lacking = tuple(scope for path, scope in _SCOPE_PROBES.items() if self._lacks_scope(path))
        return facts._replace(lacking_scopes=lacking, hides_writers=self._rights.hidden(found, self._account))

    def may_push(self, branch: str) -> bool:
        """Whether no protection forbids it; a branch that is not there can be made."""
        shown = self._client.read(f"branches/{quote(branch)}")
        return shown.status == HTTPStatus.NOT_FOUND or bool(shown.data["user_can_push"])

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now."""
        return self._writers.ask(login)

    @property
    def links(self) -> Links:
        """Pages of the server."""
        return Links(self._client.web, "src/branch/")

    # --- internals -------------------------------------------------------------------------------------------

    @cached_property
    def _account(self) -> str:
        return self._client.account()

    def _written_by_us(self, shown: rest.Json) -> rest.Json:
        """What the server shows of what we have just written: its author is our account."""
        self._account = rest.author_of(shown)
        return shown

    def _lacks_scope(self, path: str) -> bool:
        """A change to what never exists is refused for the scopes of the token first, and does nothing in any case."""
        try:
            self._client.send("PATCH", path, {})
        except AccessRefused as refused:
            return refused.reason == "permission"
        return False

    def _look(self, path: str) -> Any:
        """What is there; None if nothing is. Raises AccessRefused if the repository itself is not there."""
        answer = self._client.read(path)
        if answer.status == HTTPStatus.NOT_FOUND:
            self._client.explain_absence(of_issues=path.startswith("issues"))
            return None
        return answer.data

    def _find(self, path: str, what: str) -> Any:
        """What must be there. Raises RemoteFailed that names *what* is not."""
        found = self._look(path)
        if found is None:
            raise self._missing(what)
        return found

    def _write(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        """Change *what* must be there."""
        answer = self._client.send(method, path, body)
        if answer.status == HTTPStatus.NOT_FOUND:
            self._client.explain_absence(of_issues=path.startswith("issues"))
            raise self._missing(what)
        return answer.data

    def _missing(self, what: str) -> RemoteFailed:
        return RemoteFailed(f"there is no {what} in {self._client.web}")

    def _issue(self, shown: rest.Json) -> Issue:
        written = self._attributed(shown)
        return rest.gitea_issue(written, trusted=rest.author_of(written) == self._account or self._trusts(written))

    def _comments(self, number: int, query: Query | None = None) -> tuple[Comment, ...]:
        return tuple(map(self._comment, self._said_under(number, "comments", query)))

    def _timeline(self, number: int) -> list[rest.Json]:
        """What was done to the issue, oldest first."""
        return self._said_under(number, "timeline")

    def _doer(self, events: Sequence[rest.Json]) -> str | None:
        """Who did the last of them, unless it came here with a migration."""
        return rest.login_of(self._attributed(events[-1])["user"]) if events else None

    def _said_under(self, number: int, which: str, query: Query | None = None) -> list[rest.Json]:
        """One of the lists of an issue that have no pages, oldest first."""
        with self._commenting(number):
            shown = self._client.read_at_once(f"issues/{number}/{which}", query)
        if shown is None:
            self._client.explain_absence(of_issues=True)
            raise self._missing(f"issue #{number}")
        return sorted(shown, key=lambda one: int(one["id"]))

    def _comment(self, shown: rest.Json) -> Comment:
        written = self._attributed(shown)
        ours = rest.author_of(written) == self._account
        return rest.comment_of(written, ours=ours, trusted=self._trusts(written))

    def _listed(self, since: datetime | None) -> Iterator[ListedIssue]:
        """Issues and pull requests, for the index."""
        changed = {"since": since.isoformat()} if since else {}
        return map(rest.listed, self._client.read_all("issues", {"state": "all", **changed}))

    def _listed_alone(self, number: int) -> ListedIssue | None:
        """For the index, which has just seen that the repository is there."""
        answer = self._client.read(f"issues/{number}")
        return None if answer.status == HTTPStatus.NOT_FOUND else rest.listed(answer.data)

    @contextmanager
    def _commenting(self, number: int) -> Iterator[None]:
        """Gitea fails with a 500 where the issue is not there: tell that from an outage."""
        try:
            yield
        except RemoteUnavailable as outage:
            if self._look(f"issues/{number}") is None:
                raise RemoteFailed(f"there is no issue #{number} in {self._client.web}") from outage
            raise

    def _add_labels(self, number: int, names: Sequence[str]) -> Sequence[rest.Json]:
        """The labels that it has then. The id of a label that was deleted meanwhile is passed over: then once more."""
        for may_be_stale in (True, False):
            given = {"labels": self._label_ids(names)}
            shown: list[rest.Json] = self._write("POST", f"issues/{number}/labels", f"issue #{number}", given)
            if not may_be_stale or {*names} <= {label["name"] for label in shown}:
                return shown
            self._labels.clear()
        raise AssertionError("the second answer counts")

    def _label_ids(self, names: Iterable[str]) -> list[int]:
        """Issues take labels by id; those that are missing are made."""
        wanted = dict.fromkeys(names)
        self._know_labels(wanted)
        return [
            self._labels[name] if name in self._labels else self._create_label(Label(name, _PLAIN)) for name in wanted
        ]

    def _know_labels(self, names: Iterable[str]) -> None:
        """Read the ids by name where one of these is not known; of several labels with one name the oldest counts."""
        if not self._labels.keys() >= {*names}:
            shown: list[Any] = self._client.read_all("labels")
            self._labels = {label["name"]: label["id"] for label in sorted(shown, key=lambda one: -int(one["id"]))}

    def _create_label(self, label: Label) -> int:
        given = {"name": label.name, "color": f"#{label.color}", "description": label.description}
        self._labels[label.name] = int(self._write("POST", "labels", "place for labels", given)["id"])
        return self._labels[label.name]

    def _without_idle_prefix(self, shown: rest.Json) -> rest.Json:
        """The request without our prefix where it makes no draft: the server has others, and tells nobody which."""
        title, prefixed = rest.without_wip(shown["title"])
        if not prefixed or rest.is_draft(shown):
            return shown
        number = shown["number"]
        found: rest.Json = self._write("PATCH", f"pulls/{number}", f"pull request #{number}", {"title": title})
        return found

    @staticmethod
    def _new_title(shown: rest.Json, title: str | None, *, draft: bool | None) -> str:
        """A draft stays one under a new title, and a title stays when it ceases to be one."""
        words = rest.without_wip(shown["title"])[0] if title is None else title
        return rest.with_wip(words, draft=rest.is_draft(shown) if draft is None else draft)

    def _remarks(self, number: int, review: rest.Json) -> tuple[Remark, ...]:
        if not review["comments_count"]:
            return ()
        shown = self._find(f"pulls/{number}/reviews/{review['id']}/comments", f"review {review['id']} of #{number}")
        in_order = sorted(map(self._attributed, shown), key=lambda one: int(one["id"]))
        return tuple(
            # Of the new file, or of the old one where it is on what was taken out.
            rest.remark_of(one, one["position"] or one["original_position"] or None, trusted=self._trusts(one))
            for one in in_order
        )

    def _is_known(self, login: str) -> bool:
        return not self._is_agent(login) and (login == self._account or self._rights.include(login))

    def _trusts(self, shown: rest.Json) -> bool:
        """Whether it has an author, who has write access (R20)."""
        return shown["user"] is not None and self._writers.includes(rest.author_of(shown))

    def _attributed(self, shown: rest.Json) -> rest.Json:
        """The same, without its author where that is somebody with write access who did not write it here.

        A migration brings text in with its time, and under the account that migrates unless it knows the author.
        """
        if not self._trusts(shown) or parsed(shown.get("created_at") or shown["submitted_at"]) >= self._created:
            return shown
        return {**shown, "user": None}

    @cached_property
    def _created(self) -> datetime:
        """When the repository was made here."""
        return parsed(self._find("", "repository")["created_at"])
