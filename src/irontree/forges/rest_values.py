"""The JSON of GitHub's REST API, and of Gitea's, which is made after it, as values of the port. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from irontree.domain.issues import Comment, Issue
from irontree.domain.timestamps import parsed, utc_text
from irontree.forges.markers import ListedIssue, as_kept
from irontree.ports import (
    ChangedIssue,
    CheckState,
    CommentMark,
    CommitCheck,
    Opinion,
    PullRequest,
    Remark,
    RepositoryFacts,
    Review,
    ReviewVerdict,
)

# --- Values common to both


Json = Mapping[str, Any]
GHOST: Final = "ghost"
"""The login that GitHub shows for a deleted account; used wherever no author is shown."""


def author_of(data: Json) -> str:
    """The login of the author."""
    return str((data.get("user") or {}).get("login") or GHOST)


def login_of(user: Json | None) -> str | None:
    """The login of an account; None where none is shown."""
    return (user or {}).get("login") or None


def logins_of(users: Iterable[Json] | None) -> tuple[str, ...]:
    """The logins of accounts; Gitea shows null for none of them."""
    return tuple(str(user["login"]) for user in users or ())


def text_of(data: Json) -> str:
    """The text of an issue or a pull request."""
    return _text(data["body"])


def is_pull(data: Json) -> bool:
    """Whether what looks like an issue is a pull request."""
    return data.get("pull_request") is not None


def issue_of(data: Json, *, trusted: bool) -> Issue:
    """An issue, or a pull request listed as one."""
    return Issue(
        number=data["number"],
        title=data["title"],
        body=text_of(data),
        state=_state(data),
        labels=tuple(label if isinstance(label, str) else label["name"] for label in data["labels"] or ()),
        author=author_of(data),
        trusted=trusted,
        url=data["html_url"],
        pull_request=is_pull(data),
        assignees=logins_of(data.get("assignees")),
        created_at=utc(data["created_at"]),
    )


def listed(data: Json) -> ListedIssue:
    """What the index keeps; the text of a pull request holds no marker."""
    return ListedIssue(data["number"], "" if is_pull(data) else _text(data["body"]), parsed(data["updated_at"]))


def facts_of(data: Json, account: str, *, can_write: bool) -> RepositoryFacts:
    """A repository, as *account* sees it."""
    return RepositoryFacts(
        full_name=data["full_name"],
        url=data["html_url"],
        default_branch=data["default_branch"],
        account=account,
        can_write=can_write,
        archived=data["archived"],
        has_issues=data["has_issues"] and not data.get("external_tracker"),
        has_pull_requests=data.get("has_pull_requests", True),
        # GitHub's word, and Gitea's.
        keeps_merged_branches=False
        in (data.get("delete_branch_on_merge"), data.get("default_delete_branch_after_merge")),
        empty=data.get("empty", False),
    )


def comment_of(data: Json, *, ours: bool, trusted: bool) -> Comment:
    """A comment of an issue or a pull request."""
    return Comment(
        id=str(data["id"]),
        body=_text(data["body"]),
        author=author_of(data),
        ours=ours,
        created_at=utc(data["created_at"]),
        url=data["html_url"],
        trusted=trusted,
        edited=data["updated_at"] != data["created_at"],
    )


def comment_mark(data: Json) -> CommentMark:
    """Where a comment is, of which lists of a repository name the page: Gitea's of a pull request by another key."""
    page = data["issue_url"] or data["pull_request_url"]
    return CommentMark(int(page.rpartition("/")[2]), str(data["id"]), utc(data["updated_at"]))


def changed_issue(issue: Issue, data: Json) -> ChangedIssue:
    """The issue, as a list shows it, and when it changed."""
    return ChangedIssue(issue, utc(data["updated_at"]))


def review_of(data: Json, verdict: ReviewVerdict, remarks: Iterable[Remark], *, trusted: bool) -> Review:
    """A review that was handed in."""
    return Review(
        id=str(data["id"]),
        author=author_of(data),
        trusted=trusted,
        verdict=verdict,
        body=_text(data["body"]),
        commit=data.get("commit_id") or "",
        remarks=tuple(remarks),
    )


def remark_of(data: Json, line: int | None, *, trusted: bool) -> Remark:
    """A review's comment on a *line*, or on a whole file."""
    return Remark(
        author=author_of(data),
        trusted=trusted,
        body=_text(data["body"]),
        path=data.get("path") or None,
        line=line,
    )


def utc(moment: str) -> str:
    """A time in UTC; servers of Gitea write it in their own zone."""
    return utc_text(parsed(moment))


def _text(body: str | None) -> str:
    return as_kept(body or "")


def _state(data: Json) -> Literal["open", "closed"]:
    return "closed" if data["state"] == "closed" else "open"


# --- GitHub only


_GITHUB_VERDICTS: Final[Mapping[str, ReviewVerdict]] = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "changes_requested",
    "COMMENTED": "commented",
    "DISMISSED": "dismissed",
}
GITHUB_EVENTS: Final[Mapping[Opinion, str]] = {
    "approved": "APPROVE",
    "changes_requested": "REQUEST_CHANGES",
    "commented": "COMMENT",
}
"""What hands a review in, by what it says."""
_GITHUB_METHODS: Final = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
FORBID_PUSHES: Final = frozenset(
    {"pull_request", "merge_queue", "update", "required_status_checks", "required_deployments", "workflows"}
)
"""Types of rules under which nobody pushes a new commit to the branch itself."""
_GOOD: Final = {"success", "neutral", "skipped"}
_LOG_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", re.MULTILINE)
_EXCERPT: Final = 4000


def github_pull(data: Json) -> PullRequest:
    """A pull request; one from a listing does not say who merged it."""
    merged = bool(data.get("merged_at"))
    return PullRequest(
        number=data["number"],
        title=data["title"],
        body=_text(data["body"]),
        state=_state(data),
        merged=merged,
        draft=bool(data.get("draft")),
        head_branch=data["head"]["ref"],
        head_sha=data["head"]["sha"],
        base_branch=data["base"]["ref"],
        merge_sha=data.get("merge_commit_sha") if merged else None,
        merged_by=((data.get("merged_by") or {}).get("login") or GHOST) if merged else None,
        url=data["html_url"],
        requested_reviewers=logins_of(data.get("requested_reviewers")),
    )


def github_merge_method(repository: Json) -> str:
    """The way to merge that the repository allows, a merge commit first."""
    return next((way for way, setting in _GITHUB_METHODS.items() if repository.get(setting)), "merge")


def protection_forbids(data: Json, login: str) -> bool:
    """Whether the classic protection of a branch, as administrators are shown it, keeps *login* from pushing to it.

    Administrators are bound only where it says so. Whom a team includes is not looked up: the push finds out.
    """
    if not (data.get("enforce_admins") or {}).get("enabled"):
        return False
    reviews, pushers = data.get("required_pull_request_reviews"), data.get("restrictions")
    checks = data.get("required_status_checks") or {}
    return bool(
        (reviews and not _may_include(reviews.get("bypass_pull_request_allowances") or {}, login))
        or (pushers and not _may_include(pushers, login))
        or checks.get("contexts")
        or checks.get("checks")
        or (data.get("lock_branch") or {}).get("enabled")
    )


def _may_include(group: Json, login: str) -> bool:
    named = {user["login"].casefold() for user in group.get("users") or ()}
    return login.casefold() in named or bool(group.get("teams") or group.get("apps"))


def lacking_scopes(told: str, *, private: bool) -> tuple[str, ...]:
    """What a classic token lacks. Tokens of other kinds tell no scopes, nor does one that has none at all."""
    scopes = {*filter(None, told.replace(",", " ").split())}
    enough = {"repo"} if private else {"repo", "public_repo"}
    return ("repo",) if scopes and not scopes & enough else ()


def github_verdict(data: Json) -> ReviewVerdict:
    """What a review says, in an API answer (upper case) or in a webhook (lower case)."""
    return _GITHUB_VERDICTS.get(str(data["state"]).upper(), "commented")


def is_pending(data: Json) -> bool:
    """Whether a review is not handed in yet: only its author sees it."""
    return str(data["state"]).upper() == "PENDING"


def status_check(data: Json) -> CommitCheck:
    """A commit status."""
    states: Mapping[str, CheckState] = {"success": "success", "pending": "pending"}
    return CommitCheck(
        name=data["context"],
        state=states.get(data["state"], "failure"),
        summary=data.get("description") or "",
    )


def run_check(data: Json) -> CommitCheck:
    """A check run, as GitHub Actions and other apps make them."""
    output = data.get("output") or {}
    return CommitCheck(
        name=data["name"],
        state=_run_state(data),
        summary=output.get("title") or data.get("conclusion") or data["status"],
    )


def _run_state(data: Json) -> CheckState:
    if data["status"] != "completed":
        return "pending"
    return "success" if data.get("conclusion") in _GOOD else "failure"


def run_excerpt(data: Json, annotations: Iterable[Json], log: str) -> str:
    """What is wrong, in some 4 KB: where it was noted, what the check says of itself, and the end of its log."""
    output = data.get("output") or {}
    noted = "\n".join(f"{a['path']}:{a['start_line']}: {a['message']}" for a in annotations)
    parts = (noted, output.get("summary"), output.get("text"), _LOG_STAMP.sub("", log))
    return "\n\n".join(part.strip() for part in map(as_kept, filter(None, parts)) if part.strip())[-_EXCERPT:]


# --- Gitea only


_WIP: Final = ("WIP:", "[WIP]")
"""Gitea has no drafts but titles that begin so, in any case (`WORK_IN_PROGRESS_PREFIXES` as shipped)."""
_GITEA_VERDICTS: Final[dict[str, ReviewVerdict]] = {
    "APPROVED": "approved",
    "REQUEST_CHANGES": "changes_requested",
    "COMMENT": "commented",
}
"""What was handed in; a pending review and a request for one are not."""
GITEA_EVENTS: Final[Mapping[ReviewVerdict, str]] = {verdict: state for state, verdict in _GITEA_VERDICTS.items()}
_GITEA_STYLES: Final = {
    "merge": "allow_merge_commits",
    "squash": "allow_squash_merge",
    "rebase-merge": "allow_rebase_explicit",
    "rebase": "allow_rebase",
    "fast-forward-only": "allow_fast_forward_only_merge",
}
_STATES: Final[dict[str, CheckState]] = {
    "pending": "pending",
    "success": "success",
    "warning": "success",
    "skipped": "success",
    "error": "failure",
    "failure": "failure",
}


def gitea_issue(shown: Json, *, trusted: bool) -> Issue:
    """An issue, or a pull request seen as one, without what calls it a draft."""
    found = issue_of(shown, trusted=trusted)
    return found._replace(title=without_wip(found.title)[0]) if found.pull_request else found


def gitea_pull(shown: Json) -> PullRequest:
    """A pull request. Only `label` keeps the name of a branch that is deleted, as many are with the merge."""
    title, _ = without_wip(shown["title"])
    return PullRequest(
        number=shown["number"],
        title=title,
        body=_text(shown["body"]),
        state=_state(shown),
        merged=shown["merged"],
        draft=is_draft(shown),
        head_branch=shown["head"]["label"],
        head_sha=shown["head"]["sha"],
        base_branch=shown["base"]["label"],
        merge_sha=shown["merge_commit_sha"] or None,
        merged_by=shown["merged_by"]["login"] if shown["merged_by"] else None,
        url=shown["html_url"],
        requested_reviewers=logins_of(shown.get("requested_reviewers")),
    )


def gitea_merge_style(repository: Json) -> str:
    """The way to merge that the repository prefers, or else the first that it allows."""
    allowed = [style for style, setting in _GITEA_STYLES.items() if repository.get(setting)]
    preferred = repository.get("default_merge_style")
    return preferred if preferred in allowed else next(iter(allowed), "merge")


def writes_code(team: Json) -> bool:
    """Whether the members of a team may push; before 1.18 and for administrators the whole team has one permission."""
    whole: str = team["permission"]
    return whole in {"admin", "owner"} or (team.get("units_map") or {}).get("repo.code") in {"write", "admin", "owner"}


def speaks_of_code(team: Json) -> bool:
    """Whether the team has an entry for code, be it `none`; one of administrators needs none."""
    return team["permission"] in {"admin", "owner"} or "repo.code" in (team.get("units_map") or {})


def version_of(data: Json) -> tuple[int, ...]:
    """The first two numbers of a server's version, `(1, 24)`; nothing of one that does not begin so."""
    found = re.match(r"(\d+)\.(\d+)", str(data.get("version", "")))
    return tuple(map(int, found.groups())) if found else ()


def is_of_our_branch(shown: Json, head: str) -> bool:
    """Whether a pull request is of that branch, and of the repository itself, not of a fork's branch of that name."""
    same_repository: bool = shown["head"]["repo_id"] == shown["base"]["repo_id"]
    return same_repository and shown["head"]["label"] == head


def is_draft(shown: Json) -> bool:
    """Whether the server takes it for unfinished; those before 1.22 leave it to the title."""
    return bool(shown.get("draft", without_wip(shown["title"])[1]))


def with_wip(title: str, *, draft: bool) -> str:
    """The title that says so, if it is a draft."""
    return f"{_WIP[0]} {title}" if draft else title


def without_wip(title: str) -> tuple[str, bool]:
    """The title itself, and whether it called itself a draft."""
    for prefix in _WIP:
        if title.upper().startswith(prefix):
            return title[len(prefix) :].lstrip(), True
    return title, False


def verdict_of(shown: Json) -> ReviewVerdict | None:
    """What a review says; None for one that was not handed in."""
    verdict = _GITEA_VERDICTS.get(shown["state"])
    return "dismissed" if verdict and shown["dismissed"] else verdict


def checks_of(statuses: Iterable[Json]) -> tuple[CommitCheck, ...]:
    """The newest status of each name, ordered by name. Gitea's API shows nothing of the logs behind them."""
    newest = {shown["context"]: shown for shown in sorted(statuses, key=lambda shown: int(shown["id"]))}
    return tuple(
        CommitCheck(
            name=name,
            state=_STATES.get(shown["status"], "pending"),
            summary=shown["description"],
        )
        for name, shown in sorted(newest.items())
    )


def requested(reviewers: Sequence[str], *, besides: str) -> dict[str, list[str]]:
    """The body of a request for reviews, by accounts and by teams (`org/team`); empty if nobody is left to ask."""
    people = [name for name in reviewers if "/" not in name and name.casefold() != besides.casefold()]
    teams = [name.rpartition("/")[2] for name in reviewers if "/" in name]
    return {key: names for key, names in (("reviewers", people), ("team_reviewers", teams)) if names}
