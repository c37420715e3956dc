"""The `github` forge: github.com, GitHub Enterprise Cloud and Server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final, Unpack
from urllib.parse import urlencode

from irontree.domain.issues import Comment, Issue
from irontree.domain.timestamps import utc_text
from irontree.errors import AccessRefused, RemoteFailed
from irontree.forges import ForgeSettings
from irontree.forges import rest_values as rest
from irontree.forges.github_client import PER_PAGE, GithubClient
from irontree.forges.http_answers import refused_as
from irontree.forges.markers import IssueIndex, ListedIssue, as_kept, as_sent, require_fits, shortened
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

BODY: Final = 65_536
TITLE: Final = 256
_DESCRIPTION: Final = 140
_DRAFT: Final = {
    True: "mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { clientMutationId } }",
    False: "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { clientMutationId } }",
}
_LABEL_DESCRIPTION: Final = 100
_BADNESS: Final[Mapping[CheckState, int]] = {"success": 0, "pending": 1, "failure": 2}
_NO_COMMIT: Final = frozenset({404, 422})
"""What is answered about a commit that is not there."""


class GithubForge:
    """Implements `Forge`. Nothing is asked before it is needed: making one needs neither network nor token."""

    name = "github"

    def __init__(self, settings: ForgeSettings) -> None:
        self._client = GithubClient(settings)
        self._is_agent = settings.is_agent
        self._writers = KnownWriters(settings.clock, self._is_writer)
        self._labels: set[str] = set()
        """Those that the repository is known to have, in small letters."""
        self._ids: dict[int, int] = {}
        self._index = IssueIndex(self._listed, self._listed_alone)

    # --- issues -------------------------------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue."""
        text = fitting({"title": title, "body": body}, "the issue")
        given = {**text, "labels": list(dict.fromkeys(labels))}
        data = self._written_by_us(self._client.write("POST", self._client.path("issues"), given))
        self._index.add(rest.listed(data))
        return self._issue(data)

    def read_issue(self, number: int) -> Issue | None:
        """The issue, or the pull request as one; None if there is none (any more)."""
        data = self._read(number)
        return None if data is None else self._issue(data)

    def read_text(self, number: int) -> str | None:
        """The text of the issue or pull request; None if there is none (any more)."""
        data = self._read(number)
        return None if data is None else rest.text_of(data)

    def find_issues(self, *markers: str) -> tuple[Issue, ...]:
        """Issues whose body holds one of *markers* as a line of its own, lowest number first."""
        return self._index.find(markers, self.read_issue)

    def find_issues_before(self, number: int, marker: str) -> tuple[Issue, ...]:
        """Those with a lower number."""
        return self._index.find_before(number, [marker], self.read_issue)

    def open_issues(self, label: str | None = None) -> tuple[Issue, ...]:
        """Open issues that carry *label*, or all without one, oldest first; pull requests left out."""
        query = {"state": "open", "sort": "created", "direction": "asc"} | ({} if label is None else {"labels": label})
        listed = self._client.pages_again(self._client.path("issues"), **query)
        return tuple(self._issue(data) for data in listed if not rest.is_pull(data))

    def changed_since(self, moment: str) -> tuple[ChangedIssue, ...]:
        """Issues that changed at or after *moment*, lowest number first; one with a new comment is among them.

        The newest come first: what changes while pages are read cannot push another out of sight.
        """
        query = {"state": "all", "since": moment, "sort": "updated", "direction": "desc"}
        listed = self._client.pages_again(self._client.path("issues"), **query)
        found = {data["number"]: data for data in listed if not rest.is_pull(data)}
        return tuple(rest.changed_issue(self._issue(data), data) for _, data in sorted(found.items()))

    def assigner(self, number: int, login: str) -> Assigned | None:
        """Who last assigned *login*, and when."""
        with self._of(number):
            events = self._client.pages_again(self._client.path("issues", number, "events"))
            given = [data for data in events if data["event"] == "assigned"]
        theirs = [data for data in given if (rest.login_of(data["assignee"]) or "").casefold() == login.casefold()]
        by = rest.login_of(theirs[-1]["assigner"]) if theirs else None
        return Assigned(by, rest.utc(theirs[-1]["created_at"])) if by else None

    def closer(self, number: int) -> str | None:
        """The account that closed it."""
        data = self._existing(number)
        return rest.login_of(data.get("closed_by")) if data["state"] == "closed" else None

    def edit_issue(self, number: int, **changes: Unpack[IssueChanges]) -> None:
        """Change what is given, leave the rest."""
        self._touch("PATCH", number, (), fitting(changes, f"issue #{number}"))

    # --- comments -----------------------------------------------------------------------------------------

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        return self._comments(number)

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment*, oldest first."""
        return self._comments(number, since=moment)

    def commented_since(self, moment: str) -> tuple[CommentMark, ...]:
        """Where comments were posted or edited at or after *moment*."""
        order = {"sort": "updated", "direction": "asc"}
        listed = self._client.pages_again(self._client.path("issues", "comments"), since=moment, **order)
        return tuple(map(rest.comment_mark, listed))

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        posted = self._touch("POST", number, ("comments",), self._comment_text(body))
        return self._comment(self._written_by_us(posted))

    def react(self, number: int, comment_id: str, reaction: Reaction) -> None:  # noqa: ARG002  (the id is enough)
        """Show our account's reaction to a comment."""
        path = self._client.path("issues", "comments", comment_id, "reactions")
        self._client.write("POST", path, {"content": reaction})

    def depend(self, number: int, on: int) -> None:
        """Show that an issue is blocked by another."""
        self._relate(number, ("dependencies", "blocked_by"), {"issue_id": self._id(on)})

    def add_part(self, number: int, part: int) -> None:
        """Make an issue a sub-issue."""
        self._relate(number, ("sub_issues",), {"sub_issue_id": self._id(part)})

    def _relate(self, number: int, below: tuple[str, ...], body: dict[str, int]) -> None:
        """An older server does not know it, and repeating it is refused."""
        answer = self._client.ask("POST", self._client.path("issues", number, *below), body=body)
        if answer.status not in {404, 410, 422}:
            self._client.require(answer)

    def _id(self, number: int) -> int:
        """GitHub's own id of an issue, which only relations need; known of one that was just shown."""
        return self._ids[number] if number in self._ids else int(self._existing(number)["id"])

    def assign(self, number: int, logins: Sequence[str]) -> None:
        """Assign these accounts; GitHub leaves out whom it cannot assign."""
        self._touch("POST", number, ("assignees",), {"assignees": [*logins]})

    # --- labels -------------------------------------------------------------------------------------------

    def ensure_labels(self, labels: Collection[Label]) -> None:
        """Create those that are missing; names differ by more than case."""
        path = self._client.path("labels")
        if not self._labels.issuperset(label.name.casefold() for label in labels):
            self._labels = {data["name"].casefold() for data in self._client.pages(path)}
        for label in labels:
            if label.name.casefold() not in self._labels:
                described = {"description": shortened(label.description, _LABEL_DESCRIPTION)}
                self._client.write("POST", path, {"name": label.name, "color": label.color.lower(), **described})
                self._labels.add(label.name.casefold())

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove what has to be. What we add tells what is there."""
        wanted = [name for name in dict.fromkeys(add) if name not in remove]
        shown = (
            self._touch("POST", number, ("labels",), {"labels": wanted}) if wanted else self._existing(number)["labels"]
        )
        present = {label["name"].casefold() for label in shown}
        for name in remove:
            if name.casefold() in present:
                answer = self._client.ask("DELETE", self._client.path("issues", number, "labels", name))
                if answer.status != 404:  # noqa: PLR2004  (removed meanwhile)
                    self._client.require(answer)

    # --- pull requests, reviews and checks -----------------------------------------------------------------

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head*; no draft where the repository's plan has none."""
        text = fitting({"title": title, "body": body}, "the pull request")
        try:
            data = self._client.write(
                "POST", self._client.path("pulls"), {**text, "head": head, "base": base, "draft": draft}
            )
        except RemoteFailed as error:
            if draft and _has_no_drafts(error):
                return self.create_pull_request(head=head, base=base, title=title, body=body, draft=False)
            if type(error) is not RemoteFailed:
                raise
            raise RemoteFailed(f"no pull request of {head} into {base}: {error.message}") from error
        return rest.github_pull(data)

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none."""
        data = self._client.read(self._client.path("pulls", number))
        return None if data is None else rest.github_pull(data)

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, lowest number first."""
        owner = self._client.repository()["owner"]["login"]
        query: dict[str, Any] = {"state": "all", "head": f"{owner}:{head}", "sort": "created", "direction": "asc"}
        numbers = sorted(
            data["number"]
            for data in self._client.pages(self._client.path("pulls"), **query)
            if data["head"]["ref"] == head and not _is_foreign(data)
        )
        return tuple(pull for number in numbers if (pull := self.read_pull_request(number)))

    def open_pull_requests(self) -> tuple[PullRequest, ...]:
        """Those that are open, lowest number first; asked for again, an unchanged list is not sent."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        return tuple(map(rest.github_pull, self._client.pages_again(self._client.path("pulls"), **query)))

    def edit_pull_request(self, number: int, **changes: Unpack[PullRequestChanges]) -> PullRequest:
        """Change what is given, leave the rest; a repository whose plan has no drafts has none after it either."""
        path, given = self._client.path("pulls", number), fitting(changes, f"#{number}")
        before = self._present(self._client.read(path), f"pull request #{number}")
        draft = given.pop("draft", before["draft"])
        if draft != before["draft"]:
            self._set_draft(before["node_id"], draft=draft)
        after = self._client.write("PATCH", path, given) if given else self._client.read(path)
        return rest.github_pull(self._present(after, f"pull request #{number}"))

    def reviews(self, number: int) -> tuple[Review, ...]:
        """What was handed in, oldest first, each with its remarks."""
        path = self._client.path("pulls", number)
        self._present(self._client.read(path), f"pull request #{number}")
        handed_in = [data for data in self._client.pages(f"{path}/reviews") if not rest.is_pending(data)]
        remarks: defaultdict[Any, list[Remark]] = defaultdict(list)
        for data in self._client.pages(f"{path}/comments") if handed_in else ():
            line = data.get("line") or data.get("original_line")
            remarks[data.get("pull_request_review_id")].append(rest.remark_of(data, line, trusted=self._trusts(data)))
        return tuple(
            rest.review_of(data, rest.github_verdict(data), remarks[data["id"]], trusted=self._trusts(data))
            for data in handed_in
        )

    def request_reviews(self, number: int, reviewers: Sequence[str]) -> None:
        """Ask accounts and teams to review. GitHub itself asks those of CODEOWNERS."""
        if given := rest.requested(reviewers, besides=self._login):
            self._client.write("POST", self._client.path("pulls", number, "requested_reviewers"), given)

    def submit_review(self, number: int, opinion: Opinion, body: str, commit: str) -> Review:
        """Hand in our review; GitHub refuses to approve one's own request, and to ask for changes of it."""
        path, what = self._client.path("pulls", number), f"pull request #{number}"
        is_ours = self._ours(self._present(self._client.read(path), what))
        given = {"event": rest.GITHUB_EVENTS["commented" if is_ours else opinion], **self._comment_text(body)}
        with refused_as(f"no review of {what}"):
            written = self._client.write("POST", f"{path}/reviews", {**given, "commit_id": commit})
        data = self._written_by_us(written)
        return rest.review_of(data, rest.github_verdict(data), (), trusted=self._trusts(data))

    def merge_pull_request(self, number: int, head_sha: str) -> None:
        """Merge it if that is its head."""
        path, what = self._client.path("pulls", number), f"pull request #{number}"
        self._present(self._client.read(path), what)
        method = rest.github_merge_method(self._client.repository())
        with refused_as(f"{what} was not merged"):
            self._client.write("PUT", f"{path}/merge", {"sha": head_sha, "merge_method": method})

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """Statuses and check runs; of several with one name the worst counts (R15)."""
        commit = partial(self._client.path, "commits", sha)
        statuses = self._client.pages(commit("status"), "statuses", absent=_NO_COMMIT)
        runs = self._client.pages(commit("check-runs"), "check_runs", absent=_NO_COMMIT, filter="latest")
        found: list[tuple[CommitCheck, rest.Json | None]] = [(rest.status_check(data), None) for data in statuses]
        found += [(rest.run_check(data), data) for data in self._current(sha, [*runs])]
        worst = {check.name: (check, run) for check, run in sorted(found, key=lambda one: _BADNESS[one[0].state])}
        return tuple(self._with_excerpt(*worst[name]) for name in sorted(worst))

    def set_commit_status(self, sha: str, *, name: str, state: CheckState, description: str) -> None:
        """Add a status; the newest of a name counts."""
        body = {"state": state, "context": name, "description": shortened(description, _DESCRIPTION)}
        self._client.write("POST", self._client.path("statuses", sha), body)

    def may_push(self, branch: str) -> bool:
        """Whether neither a ruleset nor classic protection forbids it, as far as we are told.

        Rules are told to whoever may read, classic protection to administrators; of the rest the push finds out.
        """
        rules = self._client.read(f"{self._client.path('rules', 'branches', branch)}?per_page={PER_PAGE}", hidden=True)
        forbidding = {rule["ruleset_id"] for rule in rules or () if rule["type"] in rest.FORBID_PUSHES}
        if not all(map(self._may_bypass, forbidding)):
            return False
        if not (self._client.repository().get("permissions") or {}).get("admin"):
            return True
        protection = self._client.read(self._client.path("branches", branch, "protection"), hidden=True)
        return protection is None or not rest.protection_forbids(protection, self._login)

    def _may_bypass(self, ruleset: int) -> bool:
        found = self._client.read(self._client.path("rulesets", ruleset), hidden=True)
        return found is not None and found.get("current_user_can_bypass") in {"always", "exempt"}

    def about(self) -> RepositoryFacts:
        """The repository, as this account sees it now; an App is not told its rights, and is believed to have them."""
        data = self._client.repository(fresh=True)
        may_push = bool((data.get("permissions") or {}).get("push"))
        facts = rest.facts_of(data, self._login, can_write=may_push or self._login.endswith("[bot]"))
        return facts._replace(lacking_scopes=rest.lacking_scopes(self._client.scopes, private=data["private"]))

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now; an unchanged answer costs nothing (ETag)."""
        return self._writers.ask(login)

    @property
    def links(self) -> Links:
        """Built without a request: texts are written during an outage too, and GitHub redirects from an old name."""
        return Links(f"{self._client.url}/{self._client.configured_name}", "blob/")

    # --- internals ------------------------------------------------------------------------------------------

    def _listed(self, since: datetime | None) -> Iterator[ListedIssue]:
        query: dict[str, Any] = {"state": "all", "sort": "created", "direction": "asc"}
        if since:
            query["since"] = utc_text(since)
        return (rest.listed(data) for data in self._client.pages(self._client.path("issues"), **query))

    def _listed_alone(self, number: int) -> ListedIssue | None:
        data = self._read(number)
        return None if data is None else rest.listed(data)

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
        self._ids[data["number"]] = data["id"]
        return rest.issue_of(data, trusted=self._ours(data) or self._trusts(data))

    def _comments(self, number: int, **query: str) -> tuple[Comment, ...]:
        with self._of(number):
            listed = self._client.pages_again(self._client.path("issues", number, "comments"), **query)
            return tuple(map(self._comment, listed))

    def _comment(self, data: Any) -> Comment:
        return rest.comment_of(data, ours=self._ours(data), trusted=self._trusts(data))

    def _comment_text(self, body: str) -> dict[str, str]:
        require_fits(as_kept(body), BODY, "the comment")
        return {"body": as_kept(body)}

    @cached_property
    def _login(self) -> str:
        """Our account. An App and a workflow run are no users: REST has no name for them, GraphQL does."""
        answer = self._client.ask("GET", "/user")
        if answer.status == 403:  # noqa: PLR2004
            return str(self._client.query("query { viewer { login } }")["viewer"]["login"])
        return str(self._client.require(answer).data["login"])

    def _written_by_us(self, data: rest.Json) -> rest.Json:
        """What GitHub shows of what we have just written: its author is our account."""
        self._login = rest.author_of(data)
        return data

    def _ours(self, data: rest.Json) -> bool:
        return rest.author_of(data).casefold() == self._login.casefold()

    def _trusts(self, data: rest.Json) -> bool:
        """Whether the author is us or has write access (R20).

        An association such as MEMBER proves no write access; only the owner's does.
        """
        author = rest.author_of(data)
        is_known = self._ours(data) or data.get("author_association") == "OWNER"
        return not self._is_agent(author) and (is_known or self._writers.includes(author))

    def _is_writer(self, login: str) -> bool:
        if login == rest.GHOST or self._is_agent(login):
            return False
        if login.casefold() == self._login.casefold():
            return True
        data = self._client.read(self._client.path("collaborators", login, "permission"), hidden=True)
        return data is not None and data["permission"] in {"admin", "write"}

    def _present(self, data: Any, what: str) -> Any:
        """The object. Raises RemoteFailed that names *what* is not there; AccessRefused if the repository is not."""
        if data is None:
            raise RemoteFailed(
                f"there is no {what} in {self._client.url}/{self._client.repository()['full_name']}",
                remedy="was it deleted or moved?",
            )
        return data

    def _set_draft(self, node: str, *, draft: bool) -> None:
        """Set or clear the draft state through GraphQL: REST cannot."""
        try:
            self._client.query(_DRAFT[draft], id=node)
        except RemoteFailed as error:
            if not (draft and _has_no_drafts(error)):
                raise

    def _current(self, sha: str, runs: list[rest.Json]) -> list[rest.Json]:
        """Without those of a workflow that the same event began again: the newest counts, as on GitHub's pages.

        Check runs do not say what began them. All are kept where none share a name, or Actions is not for us to see.
        """
        if len({run["name"] for run in runs}) == len(runs):
            return runs
        query = urlencode({"head_sha": sha, "per_page": PER_PAGE})
        shown = self._client.read(f"{self._client.path('actions', 'runs')}?{query}", hidden=True)
        begun = sorted((shown or {}).get("workflow_runs", ()), key=lambda one: int(one["id"]))
        newest = {(one["workflow_id"], one["event"]): one["check_suite_id"] for one in begun}
        replaced = {one["check_suite_id"] for one in begun}.difference(newest.values())
        return [run for run in runs if (run["check_suite"] or {}).get("id") not in replaced]

    def _with_excerpt(self, check: CommitCheck, run: rest.Json | None) -> CommitCheck:
        """Of a check run that failed: its annotations, and the log where GitHub Actions ran it."""
        if run is None or check.state != "failure":
            return check
        annotations = self._client.pages(self._client.path("check-runs", run["id"], "annotations"))
        is_action = (run.get("app") or {}).get("slug") == "github-actions"
        log = self._client.text(self._client.path("actions", "jobs", run["id"], "logs")) if is_action else ""
        return check._replace(excerpt=rest.run_excerpt(run, annotations, log))


def fitting(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The fields to send; raises RemoteFailed, before anything is sent, for what is too long."""
    sent = as_sent(given)
    require_fits(sent.get("title", ""), TITLE, f"the title of {what}")
    require_fits(sent.get("body", ""), BODY, f"the text of {what}")
    return sent


def _has_no_drafts(error: RemoteFailed) -> bool:
    return "draft pull requests are not supported" in error.message.lower()


def _is_foreign(data: rest.Json) -> bool:
    """Whether the branch is one of a fork, or of a repository that is gone."""
    head, base = data["head"].get("repo") or {}, data["base"]["repo"]
    return bool(head.get("id") != base["id"])
