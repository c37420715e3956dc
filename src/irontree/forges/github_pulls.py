"""Pull requests, reviews and checks on GitHub."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final, Literal

from irontree.errors import RemoteFailed
from irontree.forges import github_values as values
from irontree.forges.github_account import GithubAccount
from irontree.forges.text import as_kept, one_line, require_fits, shortened
from irontree.ports import CheckState, CommitCheck, PullRequest, Remark, RepositoryFacts, Review

BODY: Final = 65_536
TITLE: Final = 256
_DESCRIPTION: Final = 140
_DRAFT: Final = {
    True: "mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { clientMutationId } }",
    False: "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { clientMutationId } }",
}


class GithubPullRequests(GithubAccount):
    """Implements `PullRequests`, `Checks` and `About`."""

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head*; no draft where the repository's plan has none."""
        text = fitting(title, body, "the pull request")
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
        return values.pull_request(data)

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none."""
        data = self._client.read(self._client.path("pulls", number))
        return None if data is None else values.pull_request(data)

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, lowest number first."""
        owner = self._client.repository()["owner"]["login"]
        query = {"state": "all", "head": f"{owner}:{head}", "sort": "created", "direction": "asc"}
        numbers = sorted(
            data["number"]
            for data in self._client.pages(self._client.path("pulls"), **query)
            if data["head"]["ref"] == head and not _is_foreign(data)
        )
        return tuple(pull for number in numbers if (pull := self.read_pull_request(number)))

    def edit_pull_request(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
        draft: bool | None = None,
    ) -> PullRequest:
        """Change what is given, leave the rest; a repository whose plan has no drafts has none after it either."""
        path = self._client.path("pulls", number)
        before = self._present(self._client.read(path), f"pull request #{number}")
        if draft is not None and draft != before["draft"]:
            self._set_draft(before["node_id"], draft=draft)
        changes = fitting(title, body, f"#{number}") | ({"state": state} if state else {})
        after = self._client.write("PATCH", path, changes) if changes else self._client.read(path)
        return values.pull_request(self._present(after, f"pull request #{number}"))

    def reviews(self, number: int) -> tuple[Review, ...]:
        """What was handed in, oldest first, each with its remarks."""
        path = self._client.path("pulls", number)
        self._present(self._client.read(path), f"pull request #{number}")
        handed_in = [data for data in self._client.pages(f"{path}/reviews") if not values.is_pending(data)]
        remarks: defaultdict[Any, list[Remark]] = defaultdict(list)
        for data in self._client.pages(f"{path}/comments") if handed_in else ():
            remarks[data.get("pull_request_review_id")].append(values.remark(data, trusted=self._trusts(data)))
        return tuple(values.review(data, tuple(remarks[data["id"]]), trusted=self._trusts(data)) for data in handed_in)

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """Statuses and check runs; of a name that both have, the check run counts."""
        answer = self._client.ask("GET", self._client.path("git", "commits", sha))
        if answer.status in {404, 422}:
            return ()
        self._client.require(answer)
        statuses = self._client.pages(self._client.path("commits", sha, "status"), "statuses")
        runs = self._client.pages(self._client.path("commits", sha, "check-runs"), "check_runs", filter="latest")
        found = {data["context"]: values.status_check(data) for data in statuses}
        found |= {data["name"]: self._run_check(data) for data in runs}
        return tuple(found[name] for name in sorted(found))

    def set_commit_status(
        self, sha: str, *, name: str, state: CheckState, description: str, url: str | None = None
    ) -> None:
        """Add a status; the newest of a name counts."""
        body = {"state": state, "context": name, "description": shortened(description, _DESCRIPTION)}
        self._client.write("POST", self._client.path("statuses", sha), body | ({"target_url": url} if url else {}))

    def about(self) -> RepositoryFacts:
        """The repository, as this account sees it now; an App is not told its rights, and is believed to have them."""
        data = self._client.repository(fresh=True)
        may_push = bool((data.get("permissions") or {}).get("push"))
        return RepositoryFacts(
            full_name=data["full_name"],
            url=data["html_url"],
            default_branch=data["default_branch"],
            account=self._login,
            can_write=may_push or self._login.endswith("[bot]"),
            archived=data["archived"],
            has_issues=data["has_issues"],
        )

    def _set_draft(self, node: str, *, draft: bool) -> None:
        """REST has no word for it."""
        try:
            self._client.query(_DRAFT[draft], id=node)
        except RemoteFailed as error:
            if not (draft and _has_no_drafts(error)):
                raise

    def _run_check(self, data: values.Json) -> CommitCheck:
        """With an excerpt, if it failed: annotations, and the log where GitHub Actions ran it."""
        if values.run_state(data) != "failure":
            return values.run_check(data, "")
        annotations = self._client.pages(self._client.path("check-runs", data["id"], "annotations"))
        is_action = (data.get("app") or {}).get("slug") == "github-actions"
        log = self._client.text(self._client.path("actions", "jobs", data["id"], "logs")) if is_action else ""
        return values.run_check(data, values.run_excerpt(data, annotations, log))


def fitting(title: str | None, body: str | None, what: str) -> dict[str, Any]:
    """The fields to send; raises RemoteFailed, before anything is sent, for what is too long."""
    given = {"title": None if title is None else one_line(title), "body": None if body is None else as_kept(body)}
    require_fits(given["title"] or "", TITLE, f"the title of {what}")
    require_fits(given["body"] or "", BODY, f"the text of {what}")
    return {key: value for key, value in given.items() if value is not None}


def _has_no_drafts(error: RemoteFailed) -> bool:
    return "draft pull requests are not supported" in error.message.lower()


def _is_foreign(data: values.Json) -> bool:
    """Whether the branch is one of a fork, or of a repository that is gone."""
    head, base = data["head"].get("repo") or {}, data["base"]["repo"]
    return bool(head.get("id") != base["id"])
