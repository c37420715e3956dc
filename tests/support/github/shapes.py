"""GitHub's JSON, made from the records of the double; held to the official description by `description.py`."""

from __future__ import annotations

from tests.support.github.state import Hub, Record


def words(text: str) -> list[str]:
    """What stands between spaces."""
    return text.split()


_USER_LINKS = words("followers following gists starred subscriptions organizations repos events received_events")
_REPOSITORY_LINKS = words(
    "archive assignees blobs branches collaborators comments commits compare contents contributors deployments "
    "downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels "
    "languages merges milestones notifications pulls releases stargazers statuses subscribers subscription tags "
    "teams trees"
)
_COUNTS = words(
    "forks forks_count open_issues open_issues_count size stargazers_count watchers watchers_count "
    "network_count subscribers_count"
)


_METHODS = {"merge": "merge_commit", "squash": "squash_merge", "rebase": "rebase_merge"}


class Shapes:
    """Addresses start with *root*, the address of the server."""

    def __init__(self, hub: Hub, root: str) -> None:
        self.hub = hub
        self.root = root
        self.api = f"{root}/api/v3"

    @property
    def page(self) -> str:
        return f"{self.root}/{self.hub.full_name}"

    @property
    def repository_url(self) -> str:
        return f"{self.api}/repos/{self.hub.full_name}"

    def user(self, login: str) -> Record:
        url = f"{self.api}/users/{login}"
        links = {f"{name}_url": f"{url}/{name}" for name in _USER_LINKS}
        about = {"id": sum(map(ord, login)), "node_id": f"U_{login}", "login": login, "site_admin": False}
        kind = "Bot" if login.endswith("[bot]") else "User"
        pages = {"url": url, "html_url": f"{self.root}/{login}", "avatar_url": f"{self.root}/a/{login}"}
        return about | links | pages | {"gravatar_id": "", "type": kind}

    def account(self, login: str) -> Record:
        """The account that asks, as `GET /user` shows it."""
        nothing = dict.fromkeys(("bio", "blog", "company", "email", "hireable", "location", "name"))
        counts = dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
        stamps = {"created_at": self.hub.now, "updated_at": self.hub.now}
        return self.user(login) | nothing | counts | stamps | {"user_view_type": "public"}

    def minimal_repository(self) -> Record:
        hub = self.hub
        links = {f"{name}_url": f"{self.repository_url}/{name}" for name in _REPOSITORY_LINKS}
        names = {"id": 42, "node_id": "R_42", "name": hub.name, "full_name": hub.full_name}
        facts = {"private": hub.private, "fork": False, "description": None, "owner": self.user(hub.owner)}
        return names | links | facts | {"url": self.repository_url, "html_url": self.page}

    def repository(self, account: str) -> Record:
        hub = self.hub
        right = hub.right(account)
        links = {"git_url": "git:x", "ssh_url": "git@x", "clone_url": f"{self.page}.git", "svn_url": self.page}
        flags = dict.fromkeys(("has_projects", "has_wiki", "has_pages", "has_discussions", "has_downloads"), False)
        levels = ("pull", "triage", "push", "maintain", "admin")
        held = {"read": 1, "write": 3, "admin": 5, "none": 0}[right]
        return (
            self.minimal_repository()
            | dict.fromkeys(_COUNTS, 0)
            | links
            | flags
            | dict.fromkeys(("homepage", "language", "mirror_url", "license"))
            | dict.fromkeys(("pushed_at", "created_at", "updated_at"), hub.now)
            | {"default_branch": "main", "archived": hub.archived, "disabled": False, "has_issues": hub.has_issues}
            | {"delete_branch_on_merge": hub.deletes_merged_branches}
            | {f"allow_{word}": name in hub.merge_methods for name, word in _METHODS.items()}
            | {"permissions": {level: index < held for index, level in enumerate(levels)}}
        )

    def label(self, name: str) -> Record:
        record = self.hub.labels[name.casefold()]
        return record | {"url": f"{self.repository_url}/labels/{record['name']}"}

    def issue(self, record: Record) -> Record:
        number = record["number"]
        url = f"{self.repository_url}/issues/{number}"
        is_pull = "head" in record
        links = {f"{name}_url": f"{url}/{name}" for name in ("comments", "events", "labels")}
        shown = self._common(record) | links | {"url": url, "repository_url": self.repository_url, "id": 5000 + number}
        closed = record["state"] == "closed" and record.get("closed_by")
        shown["closed_by"] = self.user(record["closed_by"]) if closed else None
        shown |= {"html_url": f"{self.page}/{'pull' if is_pull else 'issues'}/{number}", "comments": 0}
        if is_pull:
            pull = f"{self.page}/pull/{number}"
            parts = {"html_url": pull, "diff_url": f"{pull}.diff", "patch_url": f"{pull}.patch"}
            shown["pull_request"] = {"url": f"{self.repository_url}/pulls/{number}", "merged_at": None} | parts
        return shown

    def _common(self, record: Record) -> Record:
        return {
            "node_id": f"N_{record['number']}",
            "number": record["number"],
            "title": record["title"],
            "body": record["body"],
            "state": record["state"],
            "labels": [self.label(name) for name in sorted(record["labels"])],
            "user": self.user(record["author"]),
            "author_association": "OWNER" if record["author"] == self.hub.owner else "CONTRIBUTOR",
            "assignee": None,
            "assignees": [self.user(login) for login in record.get("assignees", ())],
            "milestone": None,
            "locked": False,
            "created_at": self.hub.now,
            "updated_at": record["updated_at"],
            "closed_at": self.hub.now if record["state"] == "closed" else None,
        }

    def comment(self, record: Record) -> Record:
        url = f"{self.repository_url}/issues/comments/{record['id']}"
        issue = f"{self.repository_url}/issues/{record['number']}"
        page = f"{self.page}/issues/{record['number']}#issuecomment-{record['id']}"
        about = {"id": record["id"], "node_id": f"C_{record['id']}", "url": url, "html_url": page, "issue_url": issue}
        stamps = {"created_at": record["created_at"], "updated_at": record.get("updated_at", record["created_at"])}
        association = {"author_association": "NONE", "user": self.user(record["author"]), "body": record["body"]}
        return about | stamps | association

    def event(self, record: Record) -> Record:
        """An assignment; the description has an App in every one, and GitHub in those alone that an App made."""
        app = {"id": 1, "node_id": "A_1", "owner": self.user(self.hub.owner), "name": "it", "description": None}
        app |= {"external_url": self.page, "html_url": self.page, "permissions": {}, "events": []}
        app |= {"created_at": self.hub.now, "updated_at": self.hub.now}
        url = f"{self.repository_url}/issues/events/{record['id']}"
        about = {"id": record["id"], "node_id": f"E_{record['id']}", "url": url, "event": record["event"]}
        people = {"assignee": self.user(record["assignee"]), "assigner": self.user(record["by"])}
        stamps = {"created_at": record["at"], "commit_id": None, "commit_url": None}
        return about | stamps | people | {"actor": self.user(record["by"]), "performed_via_github_app": app}

    def reaction(self, key: int, login: str, content: str) -> Record:
        about = {"id": key, "node_id": f"R_{key}", "user": self.user(login)}
        return about | {"content": content, "created_at": self.hub.now}

    def listed_pull(self, record: Record) -> Record:
        number, merged = record["number"], record.get("merged_at")
        url, issue = f"{self.repository_url}/pulls/{number}", f"{self.repository_url}/issues/{number}"
        page = f"{self.page}/pull/{number}"
        links = {
            "url": url,
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "issue_url": issue,
            "commits_url": f"{url}/commits",
            "comments_url": f"{issue}/comments",
            "review_comment_url": f"{url}/comments{{/number}}",
            "review_comments_url": f"{url}/comments",
            "statuses_url": f"{self.repository_url}/statuses/x",
        }
        names = ["comments", "commits", "statuses", "html", "issue", "review_comments", "review_comment", "self"]
        return (
            self._common(record)
            | links
            | {
                "id": 6000 + number,
                "head": self._side(record["head"], record["head_sha"]),
                "base": self._side(record["base"], self.hub.branches[record["base"]]),
                "draft": record["draft"],
                "requested_reviewers": [self.user(login) for login in record.get("requested", ())],
                "merged_at": merged,
                "merge_commit_sha": record.get("merge_commit_sha"),
                "auto_merge": None,
                "_links": {name: {"href": url} for name in names},
            }
        )

    def pull(self, record: Record) -> Record:
        counts = dict.fromkeys(("additions", "changed_files", "comments", "commits", "deletions", "review_comments"), 1)
        by = record.get("merged_by")
        return (
            self.listed_pull(record)
            | counts
            | {
                "merged": bool(by),
                "merged_by": self.user(by) if by else None,
                "mergeable": None if by else True,
                "mergeable_state": "clean",
                "maintainer_can_modify": False,
            }
        )

    def _side(self, branch: str, sha: str) -> Record:
        owner = self.hub.owner
        shown = self.repository(owner)
        repository = {key: shown[key] for key in shown if key not in {"network_count", "subscribers_count"}}
        return {"label": f"{owner}:{branch}", "ref": branch, "sha": sha, "user": self.user(owner), "repo": repository}

    def review(self, record: Record) -> Record:
        pull = f"{self.repository_url}/pulls/{record['number']}"
        page = f"{self.page}/pull/{record['number']}#pullrequestreview-{record['id']}"
        shown = {key: record[key] for key in ("id", "body", "state", "commit_id", "submitted_at")}
        if record["state"] == "PENDING":
            del shown["submitted_at"]
        return shown | {
            "node_id": f"V_{record['id']}",
            "user": self.user(record["author"]),
            "html_url": page,
            "pull_request_url": pull,
            "author_association": "CONTRIBUTOR",
            "_links": {"html": {"href": page}, "pull_request": {"href": pull}},
        }

    def remark(self, record: Record) -> Record:
        pull = f"{self.repository_url}/pulls/{record['number']}"
        url, page = f"{pull}/comments/{record['id']}", f"{self.page}/pull/{record['number']}#r{record['id']}"
        shown = {key: record[key] for key in ("id", "body", "path", "line", "commit_id", "pull_request_review_id")}
        return shown | {
            "node_id": f"M_{record['id']}",
            "user": self.user(record["author"]),
            "original_commit_id": record["commit_id"],
            "original_line": record["line"],
            "diff_hunk": "@@ -1 +1 @@",
            "created_at": self.hub.now,
            "updated_at": self.hub.now,
            "url": url,
            "html_url": page,
            "pull_request_url": pull,
            "author_association": "CONTRIBUTOR",
            "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull}},
        }

    def status(self, record: Record) -> Record:
        url = f"{self.repository_url}/statuses/{record['sha']}"
        shown = {key: record[key] for key in ("id", "state", "context", "description", "target_url")}
        stamps = {"created_at": self.hub.now, "updated_at": self.hub.now}
        return shown | stamps | {"node_id": f"S_{record['id']}", "url": url, "avatar_url": f"{self.root}/a"}

    def run(self, record: Record) -> Record:
        url = f"{self.repository_url}/check-runs/{record['id']}"
        texts = {"title": record.get("title"), "summary": record.get("summary"), "text": record.get("text")}
        noted = len(self.hub.annotations.get(record["id"], ()))
        output = texts | {"annotations_count": noted, "annotations_url": f"{url}/annotations"}
        shown = {key: record[key] for key in ("id", "name", "head_sha", "status", "conclusion")}
        done = self.hub.now if record["status"] == "completed" else None
        return shown | {
            "node_id": f"K_{record['id']}",
            "url": url,
            "html_url": f"{self.page}/runs/{record['id']}",
            "details_url": f"{self.page}/runs/{record['id']}",
            "external_id": "",
            "started_at": self.hub.now,
            "completed_at": done,
            "check_suite": {"id": record.get("suite", 1)},
            "output": output,
            "app": self._app(record.get("app", "github-actions")),
            "pull_requests": [],
        }

    def workflow_run(self, record: Record, sha: str) -> Record:
        actions = f"{self.repository_url}/actions"
        url = f"{actions}/runs/{record['id']}"
        links = {f"{name}_url": f"{url}/{name}" for name in ("jobs", "logs", "cancel", "rerun", "artifacts")}
        suite, workflow = f"{self.repository_url}/check-suites/{record['suite']}", record["workflow"]
        return links | {
            "id": record["id"],
            "node_id": f"W_{record['id']}",
            "run_number": record["id"],
            "display_title": "x",
            "path": f".github/workflows/{workflow}.yml",
            "workflow_id": workflow,
            "workflow_url": f"{actions}/workflows/{workflow}",
            "check_suite_id": record["suite"],
            "check_suite_url": suite,
            "event": record["event"],
            "status": "completed",
            "conclusion": "success",
            "head_branch": "it",
            "head_sha": sha,
            "head_commit": None,
            "head_repository": self.minimal_repository(),
            "repository": self.minimal_repository(),
            "url": url,
            "html_url": f"{self.page}/actions/runs/{record['id']}",
            "created_at": self.hub.now,
            "updated_at": self.hub.now,
            "pull_requests": [],
        }

    def _app(self, slug: str) -> Record:
        links = {"external_url": f"{self.root}/apps/x", "html_url": f"{self.root}/apps/{slug}"}
        stamps = {"created_at": self.hub.now, "updated_at": self.hub.now}
        about = {"id": 15368, "node_id": "A_1", "slug": slug, "name": slug, "description": None}
        return about | links | stamps | {"owner": self.user("github"), "permissions": {}, "events": []}
