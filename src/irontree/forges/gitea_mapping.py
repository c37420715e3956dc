"""From the JSON that Gitea shows to the values of the port. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from irontree.domain.timestamps import parsed, utc_text
from irontree.ports import (
    CheckState,
    Comment,
    CommitCheck,
    Issue,
    PullRequest,
    Remark,
    RepositoryFacts,
    Review,
    ReviewVerdict,
)

ApiObject = Mapping[str, Any]

_WIP: Final = ("WIP:", "[WIP]")
"""Gitea has no drafts but titles that begin so, in any case (`WORK_IN_PROGRESS_PREFIXES` as shipped)."""
_VERDICTS: Final[dict[str, ReviewVerdict]] = {
    "APPROVED": "approved",
    "REQUEST_CHANGES": "changes_requested",
    "COMMENT": "commented",
}
"""What was handed in; a pending review and a request for one are not."""
_STATES: Final[dict[str, CheckState]] = {
    "pending": "pending",
    "success": "success",
    "warning": "success",
    "skipped": "success",
    "error": "failure",
    "failure": "failure",
}


def issue_of(shown: ApiObject, *, trusted: bool) -> Issue:
    """An issue, or a pull request seen as one."""
    title, _ = without_wip(shown["title"]) if shown["pull_request"] else (shown["title"], False)
    return Issue(
        number=shown["number"],
        title=title,
        body=shown["body"] or "",
        state=_open_or_closed(shown),
        labels=tuple(label["name"] for label in shown["labels"] or ()),
        author=shown["user"]["login"],
        trusted=trusted,
        url=shown["html_url"],
        pull_request=bool(shown["pull_request"]),
    )


def comment_of(shown: ApiObject, *, account: str, trusted: bool) -> Comment:
    """A comment, as *account* sees it."""
    return Comment(
        id=str(shown["id"]),
        body=shown["body"],
        author=shown["user"]["login"],
        ours=shown["user"]["login"] == account,
        created_at=utc(shown["created_at"]),
        url=shown["html_url"],
        trusted=trusted,
        edited=shown["updated_at"] != shown["created_at"],
    )


def pull_of(shown: ApiObject) -> PullRequest:
    """A pull request. Only `label` keeps the name of a branch that is deleted, as many are with the merge."""
    title, _ = without_wip(shown["title"])
    return PullRequest(
        number=shown["number"],
        title=title,
        body=shown["body"] or "",
        state=_open_or_closed(shown),
        merged=shown["merged"],
        draft=is_draft(shown),
        head_branch=shown["head"]["label"],
        head_sha=shown["head"]["sha"],
        base_branch=shown["base"]["label"],
        merge_sha=shown["merge_commit_sha"] or None,
        merged_by=shown["merged_by"]["login"] if shown["merged_by"] else None,
        mergeable=_mergeable(shown),
        author=shown["user"]["login"],
        url=shown["html_url"],
    )


def is_of_our_branch(shown: ApiObject, head: str) -> bool:
    """Whether a pull request is of that branch, and of the repository itself, not of a fork's branch of that name."""
    same_repository: bool = shown["head"]["repo_id"] == shown["base"]["repo_id"]
    return same_repository and shown["head"]["label"] == head


def is_draft(shown: ApiObject) -> bool:
    """Whether the server takes it for unfinished; those before 1.22 leave it to the title."""
    return bool(shown.get("draft", without_wip(shown["title"])[1]))


def is_undecided(shown: ApiObject) -> bool:
    """Whether it may still be looked into for conflicts: until that is done, Gitea calls it not mergeable."""
    return shown["state"] == "open" and not is_draft(shown) and not shown["mergeable"]


def with_wip(title: str, *, draft: bool) -> str:
    """The title that says so, if it is a draft."""
    return f"{_WIP[0]} {title}" if draft else title


def without_wip(title: str) -> tuple[str, bool]:
    """The title itself, and whether it called itself a draft."""
    for prefix in _WIP:
        if title.upper().startswith(prefix):
            return title[len(prefix) :].lstrip(), True
    return title, False


def verdict_of(shown: ApiObject) -> ReviewVerdict | None:
    """What a review says; None for one that was not handed in."""
    verdict = _VERDICTS.get(shown["state"])
    return "dismissed" if verdict and shown["dismissed"] else verdict


def review_of(shown: ApiObject, verdict: ReviewVerdict, remarks: Iterable[Remark], *, trusted: bool) -> Review:
    """A review that was handed in."""
    return Review(
        id=str(shown["id"]),
        author=_login(shown),
        trusted=trusted,
        verdict=verdict,
        body=shown["body"],
        commit=shown["commit_id"] or "",
        submitted_at=utc(shown["submitted_at"]),
        url=shown["html_url"],
        remarks=tuple(remarks),
    )


def remark_of(shown: ApiObject, *, trusted: bool) -> Remark:
    """A remark; its line is one of the new file, or of the old one where it is on what was taken out."""
    return Remark(
        id=str(shown["id"]),
        author=_login(shown),
        trusted=trusted,
        body=shown["body"],
        path=shown["path"] or None,
        line=shown["position"] or shown["original_position"] or None,
        url=shown["html_url"],
    )


def checks_of(statuses: Iterable[ApiObject]) -> tuple[CommitCheck, ...]:
    """The newest status of each name, ordered by name. Gitea's API shows nothing of the logs behind them."""
    newest = {shown["context"]: shown for shown in sorted(statuses, key=lambda shown: int(shown["id"]))}
    return tuple(
        CommitCheck(
            name=name,
            state=_STATES.get(shown["status"], "pending"),
            summary=shown["description"],
            url=shown["target_url"],
        )
        for name, shown in sorted(newest.items())
    )


def facts_of(shown: ApiObject, account: str) -> RepositoryFacts:
    """A repository, as *account* sees it."""
    return RepositoryFacts(
        full_name=shown["full_name"],
        url=shown["html_url"],
        default_branch=shown["default_branch"],
        account=account,
        can_write=shown["permissions"]["push"],
        archived=shown["archived"],
        has_issues=shown["has_issues"],
    )


def utc(moment: str) -> str:
    """A time in UTC; servers write it in their own zone."""
    return utc_text(parsed(moment))


def _open_or_closed(shown: ApiObject) -> Literal["open", "closed"]:
    return "closed" if shown["state"] == "closed" else "open"


def _login(shown: ApiObject) -> str:
    """Who wrote it; a team that is asked for a review is no user."""
    return str(shown["user"]["login"]) if shown["user"] else ""


def _mergeable(shown: ApiObject) -> bool | None:
    """None where nothing is to merge any more, or a draft hides the answer."""
    return shown["mergeable"] if shown["state"] == "open" and not is_draft(shown) else None
