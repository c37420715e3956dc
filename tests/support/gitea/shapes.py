"""The JSON that Gitea shows of what it keeps, field by field as in its `services/convert`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zlib import crc32

from tests.support.gitea.contents import Comment, Contents, Issue, Label, Pull, Remark, Review, Status, Team

Json = dict[str, Any]
_NOT_IN_TIMELINES = {"original_author", "assets"}


class Shapes:
    """`url` is the server's own address, without a slash at its end."""

    def __init__(self, contents: Contents, url: str) -> None:
        self._contents = contents
        self._url = url
        self._home = f"{url}/{contents.owner}/{contents.name}"
        self._api = f"{url}/api/v1/repos/{contents.owner}/{contents.name}"

    def user(self, login: str) -> Json:
        return {"id": crc32(login.encode()) % 1000, "login": login, "login_name": "", "full_name": "", "active": False}

    def team(self, team: Team) -> Json:
        return {
            "id": team.id,
            "name": team.name,
            "description": "",
            "includes_all_repositories": False,
            "can_create_org_repo": False,
            "permission": team.permission,
            "units": [*team.units],
            "units_map": team.units,
        }

    def repository(self, viewer: str) -> Json:
        kept = self._contents
        permission = kept.accounts[viewer].permission
        return {
            "id": 1,
            "owner": self.user(kept.owner),
            "name": kept.name,
            "full_name": f"{kept.owner}/{kept.name}",
            "empty": kept.empty,
            "private": False,
            "html_url": self._home,
            "url": self._api,
            "clone_url": f"{self._home}.git",
            "original_url": "",
            "created_at": moment(kept.created),
            "updated_at": moment(kept.now()),
            "default_branch": "main",
            "archived": kept.archived,
            "has_issues": kept.has_issues,
            "has_pull_requests": kept.has_pull_requests,
            "allow_merge_commits": "merge" in kept.merge_styles,
            "allow_squash_merge": "squash" in kept.merge_styles,
            "allow_rebase": "rebase" in kept.merge_styles,
            "allow_rebase_explicit": "rebase-merge" in kept.merge_styles,
            "allow_fast_forward_only_merge": "fast-forward-only" in kept.merge_styles,
            "default_delete_branch_after_merge": kept.deletes_merged_branches,
            "default_merge_style": kept.merge_styles[0],
            "permissions": {
                "admin": permission in {"admin", "owner"},
                "push": permission in {"write", "admin", "owner"},
                "pull": permission != "none",
            },
            "parent": None,
        }

    def label(self, label: Label) -> Json:
        return {
            "id": label.id,
            "name": label.name,
            "exclusive": False,
            "is_archived": False,
            "color": label.color,
            "description": label.description,
            "url": f"{self._api}/labels/{label.id}",
        }

    def labels(self, issue: Issue) -> list[Json]:
        mine = [label for label in self._contents.labels if label.id in issue.labels]
        return [self.label(label) for label in sorted(mine, key=lambda label: label.name)]

    def issue(self, issue: Issue) -> Json:
        kind = "pulls" if issue.pull else "issues"
        return {
            "id": issue.number + 1000,
            "url": f"{self._api}/issues/{issue.number}",
            "html_url": f"{self._home}/{kind}/{issue.number}",
            "number": issue.number,
            "user": self.user(issue.author),
            "original_author": "",
            "title": issue.title,
            "body": issue.body,
            "labels": self.labels(issue),
            "milestone": None,
            "assignee": None,
            "assignees": [self.user(login) for login in issue.assignees] or None,
            "state": issue.state,
            "comments": len(issue.comments),
            "created_at": moment(issue.created),
            "updated_at": moment(issue.updated),
            "closed_at": None,
            "pull_request": self._pull_meta(issue) if issue.pull else None,
        }

    def _pull_meta(self, issue: Issue) -> Json:
        merged = bool(issue.pull and issue.pull.merge_sha)
        return {"merged": merged, "merged_at": None, "draft": issue.draft, "html_url": self._pull_url(issue)}

    def _pull_url(self, issue: Issue) -> str:
        return f"{self._home}/pulls/{issue.number}"

    def comment(self, issue: Issue, comment: Comment) -> Json:
        page = f"{self._home}/{'pulls' if issue.pull else 'issues'}/{issue.number}"
        return {
            "id": comment.id,
            "html_url": f"{page}#issuecomment-{comment.id}",
            "pull_request_url": page if issue.pull else "",
            "issue_url": "" if issue.pull else page,
            "user": self.user(comment.author),
            "original_author": "",
            "body": comment.body,
            "assets": [],
            "created_at": moment(comment.created),
            "updated_at": moment(comment.edited or comment.created),
        }

    def timeline(self, issue: Issue) -> list[Json]:
        page = f"{self._home}/{'pulls' if issue.pull else 'issues'}/{issue.number}"
        comments = (self.comment(issue, comment) | {"type": "comment"} for comment in issue.comments)
        said = ({k: v for k, v in one.items() if k not in _NOT_IN_TIMELINES} for one in comments)
        done = (
            {
                "id": event.id,
                "type": event.type,
                "html_url": f"{page}#issuecomment-{event.id}",
                "pull_request_url": page if issue.pull else "",
                "issue_url": "" if issue.pull else page,
                "user": self.user(event.author),
                "body": "",
                "created_at": moment(event.created),
                "updated_at": moment(event.created),
                "assignee": self.user(event.assignee) if event.assignee else None,
                "removed_assignee": event.removed,
            }
            for event in issue.events
        )
        return sorted((*said, *done), key=lambda one: int(one["id"]))

    def reaction(self, login: str, content: str) -> Json:
        return {"user": self.user(login), "content": content, "created_at": moment(self._contents.now())}

    def pull(self, issue: Issue, pull: Pull, viewer: str) -> Json:
        shown = self.issue(issue)
        common = ("number", "user", "title", "body", "labels", "state", "comments", "html_url", "created_at")
        return {
            **{name: shown[name] for name in common},
            "id": issue.number + 2000,
            "url": self._pull_url(issue),
            "draft": issue.draft,
            "mergeable": not issue.draft,
            "merged": pull.merge_sha is not None,
            "merged_at": moment(self._contents.now()) if pull.merge_sha else None,
            "merge_commit_sha": pull.merge_sha,
            "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
            "base": self._base(pull, viewer),
            "head": self._head(issue, pull, viewer),
            "requested_reviewers": [self.user(login) for login in _reviewers(issue, pull)] or None,
            "closed_at": None,
        }

    def _base(self, pull: Pull, viewer: str) -> Json:
        sha = self._contents.branches[pull.base]
        return {"label": pull.base, "ref": pull.base, "sha": sha, "repo_id": 1, "repo": self.repository(viewer)}

    def _head(self, issue: Issue, pull: Pull, viewer: str) -> Json:
        """Of a deleted branch only `label` still has the name."""
        return {
            "label": pull.head,
            "ref": pull.head if pull.branch_is_there else f"refs/pull/{issue.number}/head",
            "sha": self._contents.head_of(issue),
            "repo_id": 2 if pull.of_a_fork else 1,
            "repo": self.repository(viewer),
        }

    def review(self, issue: Issue, review: Review) -> Json:
        return {
            "id": review.id,
            "user": self.user(review.author),
            "team": None,
            "state": review.state,
            "body": review.body,
            "commit_id": review.commit,
            "stale": False,
            "official": False,
            "dismissed": review.dismissed,
            "comments_count": len(review.remarks),
            "submitted_at": moment(review.created),
            "updated_at": moment(review.created),
            "html_url": f"{self._pull_url(issue)}#issuecomment-{review.id}",
            "pull_request_url": self._pull_url(issue),
        }

    def remark(self, issue: Issue, review: Review, remark: Remark) -> Json:
        return {
            "id": remark.id,
            "body": remark.body,
            "user": self.user(review.author),
            "resolver": None,
            "pull_request_review_id": review.id,
            "created_at": moment(review.created),
            "updated_at": moment(review.created),
            "path": remark.path,
            "commit_id": review.commit,
            "original_commit_id": "",
            "diff_hunk": "",
            # a line of the old file has `original_position`, one of the new file `position`; the other is 0
            "position": remark.line,
            "original_position": remark.old_line,
            "html_url": f"{self._pull_url(issue)}#issuecomment-{remark.id}",
            "pull_request_url": self._pull_url(issue),
        }

    def status(self, status: Status, sha: str) -> Json:
        return {
            "id": status.id,
            "status": status.state,
            "target_url": status.target_url,
            "description": status.description,
            "url": f"{self._api}/statuses/{sha}",
            "context": status.context,
            "creator": self.user(status.author),
            "created_at": moment(status.created),
            "updated_at": moment(status.created),
        }


def _reviewers(issue: Issue, pull: Pull) -> list[str]:
    """Who has reviewed, asked or not, and who is to (models/issues/pull.go, LoadRequestedReviewers)."""
    reviewed = (review.author for review in pull.reviews if review.state != "PENDING" and not review.dismissed)
    return [*dict.fromkeys((*reviewed, *issue.requested))]


def moment(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
