"""GitHub's JSON, of the REST API as of webhooks, as values of the port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from irontree.domain.timestamps import parsed
from irontree.forges.markers import ListedIssue, as_kept
from irontree.ports import CheckState, Comment, CommitCheck, Issue, PullRequest, Remark, Review, ReviewVerdict

Json = Mapping[str, Any]
GHOST: Final = "ghost"
"""Whom GitHub shows in place of an account that is gone."""
_VERDICTS: Final[Mapping[str, ReviewVerdict]] = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "changes_requested",
    "COMMENTED": "commented",
    "DISMISSED": "dismissed",
}
_GOOD: Final = {"success", "neutral", "skipped"}
_LOG_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", re.MULTILINE)
_EXCERPT: Final = 4000


def author_of(data: Json) -> str:
    """The login of whoever wrote it."""
    return str((data.get("user") or {}).get("login") or GHOST)


def is_pull(data: Json) -> bool:
    """Whether what looks like an issue is a pull request."""
    return data.get("pull_request") is not None


def issue(data: Json, *, trusted: bool) -> Issue:
    """An issue, or a pull request listed as one."""
    return Issue(
        number=data["number"],
        title=data["title"],
        body=as_kept(data["body"] or ""),
        state=_state(data),
        labels=tuple(label if isinstance(label, str) else label["name"] for label in data["labels"]),
        author=author_of(data),
        trusted=trusted,
        url=data["html_url"],
        pull_request=is_pull(data),
    )


def listed(data: Json) -> ListedIssue:
    """What the index keeps; the text of a pull request is nobody's marker."""
    body = "" if is_pull(data) else as_kept(data["body"] or "")
    return ListedIssue(data["number"], body, parsed(data["updated_at"]))


def comment(data: Json, *, ours: bool, trusted: bool) -> Comment:
    """A comment of an issue or a pull request."""
    return Comment(
        id=str(data["id"]),
        body=as_kept(data["body"] or ""),
        author=author_of(data),
        ours=ours,
        created_at=data["created_at"],
        url=data["html_url"],
        trusted=trusted,
        edited=data["updated_at"] != data["created_at"],
    )


def pull_request(data: Json) -> PullRequest:
    """A pull request; one from a listing does not say whether it can be merged, nor who did it."""
    merged = bool(data.get("merged_at"))
    return PullRequest(
        number=data["number"],
        title=data["title"],
        body=as_kept(data["body"] or ""),
        state=_state(data),
        merged=merged,
        draft=bool(data.get("draft")),
        head_branch=data["head"]["ref"],
        head_sha=data["head"]["sha"],
        base_branch=data["base"]["ref"],
        merge_sha=data.get("merge_commit_sha") if merged else None,
        merged_by=((data.get("merged_by") or {}).get("login") or GHOST) if merged else None,
        mergeable=data.get("mergeable"),
        author=author_of(data),
        url=data["html_url"],
    )


def review(data: Json, remarks: tuple[Remark, ...], *, trusted: bool) -> Review:
    """A review that was handed in, as an API answer (upper case) or in a webhook (lower case)."""
    return Review(
        id=str(data["id"]),
        author=author_of(data),
        trusted=trusted,
        verdict=_VERDICTS.get(str(data["state"]).upper(), "commented"),
        body=as_kept(data["body"] or ""),
        commit=data.get("commit_id") or "",
        submitted_at=data.get("submitted_at") or "",
        url=data["html_url"],
        remarks=remarks,
    )


def is_pending(data: Json) -> bool:
    """Whether a review is still being written: nobody but its author sees it."""
    return str(data["state"]).upper() == "PENDING"


def remark(data: Json, *, trusted: bool) -> Remark:
    """A review's comment on a line, or on a whole file."""
    return Remark(
        id=str(data["id"]),
        author=author_of(data),
        trusted=trusted,
        body=as_kept(data["body"] or ""),
        path=data.get("path"),
        line=data.get("line") or data.get("original_line"),
        url=data["html_url"],
    )


def status_check(data: Json) -> CommitCheck:
    """A commit status."""
    states: Mapping[str, CheckState] = {"success": "success", "pending": "pending"}
    return CommitCheck(
        name=data["context"],
        state=states.get(data["state"], "failure"),
        summary=data.get("description") or "",
        url=data.get("target_url") or "",
    )


def run_state(data: Json) -> CheckState:
    """How a check run stands."""
    if data["status"] != "completed":
        return "pending"
    return "success" if data.get("conclusion") in _GOOD else "failure"


def run_check(data: Json, excerpt: str) -> CommitCheck:
    """A check run, as GitHub Actions and other apps make them."""
    output = data.get("output") or {}
    return CommitCheck(
        name=data["name"],
        state=run_state(data),
        summary=output.get("title") or data.get("conclusion") or data["status"],
        url=data.get("html_url") or data.get("details_url") or "",
        excerpt=excerpt,
    )


def run_excerpt(data: Json, annotations: Iterable[Json], log: str) -> str:
    """What is wrong, in some 4 KB: where it was noted, what the check says of itself, and the end of its log."""
    output = data.get("output") or {}
    noted = "\n".join(f"{a['path']}:{a['start_line']}: {a['message']}" for a in annotations)
    parts = (noted, output.get("summary"), output.get("text"), _LOG_STAMP.sub("", log))
    return "\n\n".join(part.strip() for part in map(as_kept, filter(None, parts)) if part.strip())[-_EXCERPT:]


def _state(data: Json) -> Literal["open", "closed"]:
    return "closed" if data["state"] == "closed" else "open"
