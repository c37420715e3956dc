"""Pull requests, reviews and commit statuses of the `gitea` forge."""

from __future__ import annotations

from typing import Final, Literal

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.forges.gitea_access import GiteaAccess
from irontree.forges.gitea_mapping import (
    Shown,
    checks_of,
    facts_of,
    is_draft,
    is_of_our_branch,
    is_undecided,
    pull_of,
    remark_of,
    review_of,
    verdict_of,
    with_wip,
    without_wip,
)
from irontree.forges.text import as_kept, one_line, shortened
from irontree.ports import CheckState, CommitCheck, PullRequest, Remark, RepositoryFacts, Review

_LOOKS: Final = 2
"""Further looks at one that is not mergeable: the first look makes Gitea work it out, a second apart."""
_DESCRIPTION: Final = 255


class GiteaPullRequests(GiteaAccess):
    """Implements `PullRequests`, `Checks` and `About`."""

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head* into *base*; a draft is one whose title begins with `WIP:`."""
        given = {
            "head": head,
            "base": base,
            "title": with_wip(one_line(title), draft=draft),
            "body": as_kept(body),
        }
        try:
            return pull_of(self._write("POST", "pulls", f"branch {head} or {base}", given))
        except (AccessRefused, RemoteUnavailable):
            raise
        except RemoteFailed as error:
            raise RemoteFailed(f"no pull request of {head} for {base}: {error.message}", remedy=error.remedy) from error

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none, or the number is an issue's."""
        shown = self._look(f"pulls/{number}")
        for _ in range(_LOOKS):
            if not shown or not is_undecided(shown):
                break
            self._sleep(1.0)
            shown = self._look(f"pulls/{number}")
        return pull_of(shown) if shown else None

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, in any state, lowest number first."""
        shown = self._client.read_all("pulls", {"state": "all"})
        ours = (pull_of(one) for one in shown if is_of_our_branch(one, head))
        return tuple(sorted(ours, key=lambda pull: pull.number))

    def edit_pull_request(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
        draft: bool | None = None,
    ) -> PullRequest:
        """Change what is given, leave the rest."""
        what = f"pull request #{number}"
        retitled = title is not None or draft is not None
        changes = {
            "title": self._new_title(self._find(f"pulls/{number}", what), title, draft=draft) if retitled else None,
            "body": None if body is None else as_kept(body),
            "state": state,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        return pull_of(self._write("PATCH", f"pulls/{number}", what, given))

    def reviews(self, number: int) -> tuple[Review, ...]:
        """What was handed in, oldest first, each with its remarks; Gitea also counts what is not handed in yet."""
        self._find(f"pulls/{number}", f"pull request #{number}")
        shown = self._client.read_all(f"pulls/{number}/reviews", counted=False)
        oldest_first = sorted(shown, key=lambda one: int(one["id"]))
        return tuple(
            review_of(one, verdict, self._remarks(number, one), trusted=self._wrote_trusted(one))
            for one in oldest_first
            if (verdict := verdict_of(one))
        )

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """The newest status of each name, ordered by name; the API has no way from a status to its log."""
        return checks_of(self._client.read_all(f"statuses/{sha}"))

    def set_commit_status(
        self, sha: str, *, name: str, state: CheckState, description: str, url: str | None = None
    ) -> None:
        """Say under *name* how the commit fares."""
        given = {"context": name, "state": state, "description": shortened(description, _DESCRIPTION)}
        self._write("POST", f"statuses/{sha}", f"commit {sha}", given | ({"target_url": url} if url else {}))

    def about(self) -> RepositoryFacts:
        """Who we are, and what the repository lets us do."""
        return facts_of(self._find("", "repository"), self._account)

    @staticmethod
    def _new_title(shown: Shown, title: str | None, *, draft: bool | None) -> str:
        """A draft stays one under a new title, and a title stays when it ceases to be one."""
        words = without_wip(shown["title"])[0] if title is None else one_line(title)
        return with_wip(words, draft=is_draft(shown) if draft is None else draft)

    def _remarks(self, number: int, review: Shown) -> tuple[Remark, ...]:
        if not review["comments_count"]:
            return ()
        shown = self._find(f"pulls/{number}/reviews/{review['id']}/comments", f"review {review['id']} of #{number}")
        in_order = sorted(shown, key=lambda one: int(one["id"]))
        return tuple(remark_of(one, trusted=self._wrote_trusted(one)) for one in in_order)

    def _wrote_trusted(self, shown: Shown) -> bool:
        return shown["user"] is not None and self._trusts(shown["user"]["login"])
