"""Gitea's answers, with what its source says and nobody expects; each oddity is named where it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.gitea.contents import Contents, Issue
from tests.support.gitea.shapes import Shapes

DEFAULT_LIMIT = 30
RANK = {"none": 0, "read": 1, "write": 2, "admin": 3, "owner": 4}
Json = Any


@dataclass(frozen=True)
class Request:
    """`path` is relative to the repository (`issues/7`); `user` is who the token belongs to."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Json
    user: str


@dataclass(frozen=True)
class Response:
    status: int
    body: Json = None
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """An answer that ends the request where it is raised."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[["Api", Request, "re.Match[str]"], Response]
ROUTES: list[tuple[str, re.Pattern[str], str, Handler]] = []


def route(method: str, pattern: str, scope: str) -> Callable[[Handler], Handler]:
    """`scope` is the category of the token's scopes: `read:issue` for GET, `write:issue` for the rest."""

    def register(handler: Handler) -> Handler:
        ROUTES.append((method, re.compile(pattern), scope, handler))
        return handler

    return register


class Api:
    """Answers requests about the one repository of *contents*."""

    def __init__(self, contents: Contents, url: str) -> None:
        self.contents = contents
        self.shapes = Shapes(contents, url)

    def answer(self, request: Request) -> Response:
        for method, pattern, scope, handler in ROUTES:
            found = pattern.fullmatch(request.path)
            if found and method == request.method:
                self._admit(request, scope)
                return handler(self, request, found)
        raise Refused(404, "404 page not found")

    def _admit(self, request: Request, scope: str) -> None:
        """Scopes of the token first, then sight of the repository (404, never 403), then the archive."""
        account, writes = self.contents.accounts[request.user], request.method != "GET"
        needed = f"{'write' if writes else 'read'}:{scope}"
        if account.scopes is not None and not account.scopes & {needed, f"write:{scope}"}:
            raise Refused(403, f"token does not have at least one of required scope(s), required=[{needed}]")
        if account.permission == "none":
            raise Refused(404, "not found")
        if writes and self.contents.archived:
            raise Refused(423, f"{self.contents.owner}/{self.contents.name} is archived")

    def can_write(self, user: str) -> bool:
        """A team's units count beside what the account has itself (models/perm/access/repo_permission.go:349-357).

        Before 1.25, one without an entry for code takes away what came before it (351-355).
        """
        if RANK[self.permission(user)] >= RANK["admin"]:
            return True
        own = self.contents.accounts[user].permission
        public, mode = min(RANK[own], RANK["read"]), RANK[own]
        for team in self.contents.teams or ():
            if user in team.members:
                given = team.units.get("repo.code")
                forgets = given is None and self.contents.version < "1.25"
                mode = public if forgets else max(mode, RANK[given or "none"])
        return mode >= RANK["write"]

    def permission(self, user: str) -> str:
        """What is told of an account: its units are left out, a team of administrators owns (the same, 340-346)."""
        mine = [team.permission for team in self.contents.teams or () if user in team.members]
        own = self.contents.accounts[user].permission
        return "owner" if {"admin", "owner"} & {*mine} else max((own, *mine), key=RANK.__getitem__)

    def issue(self, number: str) -> Issue:
        """With issues switched off, pull requests are still there under the same addresses."""
        issue = self.contents.issues.get(int(number))
        if issue is None or not (issue.pull or self.contents.has_issues):
            raise Refused(404, "not found")
        return issue

    def commented(self, number: str) -> Issue:
        """The comment routes take a missing issue for an error of the server, and say nothing more in production."""
        if int(number) not in self.contents.issues:
            raise Refused(500)
        return self.issue(number)

    def person(self, login: str, problem: str) -> str:
        """Somebody with an account that sees the repository."""
        if login not in self.contents.accounts or self.contents.accounts[login].permission == "none":
            raise Refused(422, f"{problem}: [name: {login}]")
        return login

    def pull(self, number: str) -> Issue:
        if self.issue(number).pull is None:
            raise Refused(404, "not found")
        return self.issue(number)


def page_of(api: Api, request: Request, items: Iterable[Json], *, link: bool = True) -> Response:
    everything = list(items)
    number = max(int(request.query.get("page", "1")), 1)
    size = min(int(request.query.get("limit", "0")) or DEFAULT_LIMIT, api.contents.max_page)
    shown = everything[(number - 1) * size : number * size]
    headers = {"X-Total-Count": str(len(everything))}
    if link and number * size < len(everything):
        headers["Link"] = f'<?page={number + 1}>; rel="next"'
    return Response(200, shown, headers)


# --- issues ---------------------------------------------------------------------------------------------------


@route("GET", "issues", "issue")
def list_issues(api: Api, request: Request, _: re.Match[str]) -> Response:
    """Newest first. A label that does not exist is left out of the filter, so that all issues pass it.

    Without `q` the database is asked, which never lags; with it the index, which does.
    """
    if not api.contents.has_issues:
        raise Refused(404, "not found")
    wanted = set(request.query.get("labels", "").split(","))
    ids = {label.id for label in api.contents.labels if label.name in wanted}
    state, kind, words = request.query.get("state", "open"), request.query.get("type"), request.query.get("q")
    since = datetime.fromisoformat(request.query.get("since", "1970-01-01T00:00:00Z"))
    chosen = [
        issue
        for _, issue in sorted(api.contents.issues.items(), reverse=True)[api.contents.lag :]
        if issue.updated >= since
        and state in {"all", issue.state}
        and (kind is None or (kind == "pulls") == (issue.pull is not None))
        and (not ids or ids & set(issue.labels))
        and (not words or (issue.indexed and words in f"{issue.title} {issue.body}"))
    ]
    return page_of(api, request, map(api.shapes.issue, chosen))


@route("POST", "issues", "issue")
def create_issue(api: Api, request: Request, _: re.Match[str]) -> Response:
    """Anybody may, even with issues switched off; labels that are unknown or not his to give are silently dropped."""
    require(request.body, "title")
    known = {label.id for label in api.contents.labels}
    labels = [number for number in request.body.get("labels") or [] if number in known]
    labels = labels if api.can_write(request.user) else []
    issue = api.contents.new_issue(request.user, request.body["title"], request.body.get("body", ""), tuple(labels))
    return Response(201, api.shapes.issue(issue))


@route("GET", r"issues/(\d+)", "issue")
def read_issue(api: Api, _: Request, found: re.Match[str]) -> Response:
    return Response(200, api.shapes.issue(api.issue(found[1])))


@route("PATCH", r"issues/(\d+)", "issue")
def edit_issue(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Answers 201; an empty title changes nothing."""
    issue = api.issue(found[1])
    edit(api, issue, request)
    return Response(201, api.shapes.issue(issue))


def edit(api: Api, issue: Issue, request: Request) -> None:
    if request.user != issue.author and not api.can_write(request.user):
        raise Refused(403)
    if issue.pull and issue.pull.merge_sha and "state" in request.body:
        raise Refused(412, "cannot change state of this pull request, it was already merged")
    waits = any(api.contents.issues[number].state == "open" for number in issue.dependencies)
    if request.body.get("state") == "closed" and waits:
        raise Refused(412, "cannot close this issue or pull request because it still has open dependencies")
    issue.title = request.body.get("title") or issue.title
    issue.body = request.body.get("body", issue.body)
    if "assignees" in request.body:
        wanted = [api.person(login, "Assignee does not exist") for login in request.body["assignees"] or ()]
        api.contents.assign(issue, wanted, request.user)
    api.contents.put_into_state(issue, request.body.get("state", issue.state), request.user)


@route("GET", r"issues/(\d+)/comments", "issue")
def list_comments(api: Api, request: Request, found: re.Match[str]) -> Response:
    """All at once: this list has no pages."""
    issue = api.commented(found[1])
    since = datetime.fromisoformat(request.query.get("since", "1970-01-01T00:00:00Z"))
    recent = (comment for comment in issue.comments if (comment.edited or comment.created) >= since)
    shown = [api.shapes.comment(issue, comment) for comment in recent]
    return Response(200, shown, {"X-Total-Count": str(len(shown))})


@route("GET", r"issues/(\d+)/timeline", "issue")
def list_timeline(api: Api, _: Request, found: re.Match[str]) -> Response:
    """All at once unless a page is asked for; the count is of what is shown (routers/api/v1/repo/issue_comment.go)."""
    shown = api.shapes.timeline(api.commented(found[1]))
    return Response(200, shown, {"X-Total-Count": str(len(shown))})


@route("GET", "issues/comments", "issue")
def list_all_comments(api: Api, request: Request, _: re.Match[str]) -> Response:
    """Of issues and pull requests, oldest first."""
    since = datetime.fromisoformat(request.query.get("since", "1970-01-01T00:00:00Z"))
    posted = [(issue, comment) for issue in api.contents.issues.values() for comment in issue.comments]
    recent = [(issue, comment) for issue, comment in posted if (comment.edited or comment.created) >= since]
    recent.sort(key=lambda found: (found[1].created, found[1].id))
    return page_of(api, request, [api.shapes.comment(*found) for found in recent], link=False)


@route("POST", r"issues/(\d+)/comments", "issue")
def create_comment(api: Api, request: Request, found: re.Match[str]) -> Response:
    require(request.body, "body")
    issue = api.commented(found[1])
    comment = api.contents.new_comment(issue, request.user, request.body["body"])
    return Response(201, api.shapes.comment(issue, comment))


@route("POST", r"issues/comments/(\d+)/reactions", "issue")
def react(api: Api, request: Request, found: re.Match[str]) -> Response:
    """A second reaction of one kind by one account is answered with 200, and is the first."""
    comments = (comment for issue in api.contents.issues.values() for comment in issue.comments)
    comment = next((comment for comment in comments if comment.id == int(found[1])), None)
    if comment is None:
        raise Refused(404, "not found")
    require(request.body, "content")
    mine = (request.user, request.body["content"])
    known = mine in comment.reactions
    comment.reactions.add(mine)
    return Response(200 if known else 201, api.shapes.reaction(*mine))


@route("POST", r"issues/(\d+)/dependencies", "issue")
def depend(api: Api, request: Request, found: re.Match[str]) -> Response:
    """A repository may have them switched off; one that is there already is taken for an error of the server."""
    issue, other = api.issue(found[1]), api.issue(str(request.body["index"]))
    if not api.contents.has_dependencies or not api.can_write(request.user):
        raise Refused(404, "not found")
    if other.number in issue.dependencies:
        raise Refused(500)
    issue.dependencies.append(other.number)
    return Response(201, api.shapes.issue(issue))


# --- labels ---------------------------------------------------------------------------------------------------


@route("GET", "labels", "issue")
def list_labels(api: Api, request: Request, _: re.Match[str]) -> Response:
    by_name = sorted(api.contents.labels, key=lambda label: label.name)
    return page_of(api, request, map(api.shapes.label, by_name), link=False)


@route("POST", "labels", "issue")
def create_label(api: Api, request: Request, _: re.Match[str]) -> Response:
    """A second label of one name is made without complaint."""
    require(request.body, "name", "color")
    if not api.can_write(request.user):
        raise Refused(403, "user should have a permission to write to a repo")
    if not re.fullmatch(r"#?[0-9a-fA-F]{6}", request.body["color"]):
        raise Refused(422, f"bad color code: {request.body['color']}")
    made = api.contents.new_label(request.body["name"], request.body["color"], request.body.get("description", ""))
    return Response(201, api.shapes.label(made))


@route("POST", r"issues/(\d+)/labels", "issue")
def add_labels(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Ids that do not exist are passed over."""
    issue = api.issue(found[1])
    if not api.can_write(request.user):
        raise Refused(403, "write permission is required")
    known = {label.id for label in api.contents.labels}
    issue.labels = [*dict.fromkeys([*issue.labels, *(n for n in request.body["labels"] if n in known)])]
    return Response(200, api.shapes.labels(issue))


@route("DELETE", r"issues/(\d+)/labels/(\d+)", "issue")
def remove_label(api: Api, request: Request, found: re.Match[str]) -> Response:
    """A label that the issue does not carry is no error; one that does not exist is."""
    issue = api.issue(found[1])
    if not api.can_write(request.user):
        raise Refused(403)
    if int(found[2]) not in {label.id for label in api.contents.labels}:
        raise Refused(422, f"label does not exist [label_id: {found[2]}]")
    issue.labels = [number for number in issue.labels if number != int(found[2])]
    return Response(204)


# --- commits, people, the repository ----------------------------------------------------------------------------


@route("GET", r"statuses/([0-9a-f]+)", "repository")
def list_statuses(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Every status ever set, newest first; a commit that is not there has none."""
    statuses = reversed(api.contents.statuses.get(found[1], []))
    return page_of(api, request, [api.shapes.status(status, found[1]) for status in statuses])


@route("POST", r"statuses/([0-9a-f]+)", "repository")
def create_status(api: Api, request: Request, found: re.Match[str]) -> Response:
    if not api.can_write(request.user):
        raise Refused(403, "user should have a permission to write to a repo")
    given = request.body
    status = api.contents.new_status(
        found[1],
        request.user,
        given.get("context", ""),
        given["state"],
        given.get("description", ""),
        given.get("target_url", ""),
    )
    return Response(201, api.shapes.status(status, found[1]))


@route("GET", r"branches/(.+)", "repository")
def read_branch(api: Api, request: Request, found: re.Match[str]) -> Response:
    if found[1] not in api.contents.branches:
        raise Refused(404, "not found")
    may = api.can_write(request.user) and found[1] not in api.contents.protected
    return Response(200, {"name": found[1], "protected": found[1] in api.contents.protected, "user_can_push": may})


@route("GET", r"collaborators/([^/]+)/permission", "repository")
def permission(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Only administrators may ask about others."""
    if request.user != found[1] and RANK[api.permission(request.user)] < RANK["admin"]:
        raise Refused(403, "Only admins can query all permissions, repo admins can query all repo permissions")
    if found[1] not in api.contents.accounts:
        raise Refused(404, f"user does not exist [uid: 0, name: {found[1]}]")
    level = api.permission(found[1])
    return Response(200, {"permission": level, "role_name": level, "user": api.shapes.user(found[1])})


@route("GET", r"collaborators/([^/]+)", "repository")
def is_collaborator(api: Api, _: Request, found: re.Match[str]) -> Response:
    """An owner is none, nor is a member of a team (routers/api/v1/repo/collaborators.go:74-118)."""
    if found[1] not in api.contents.accounts:
        raise Refused(422, f"user does not exist [uid: 0, name: {found[1]}]")
    if api.contents.accounts[found[1]].permission in {"none", "owner"}:
        raise Refused(404, "not found")
    return Response(204)


@route("GET", "teams", "repository")
def list_teams(api: Api, _: Request, __: re.Match[str]) -> Response:
    """For whoever may read (routers/api/v1/repo/teams.go)."""
    if api.contents.teams is None:
        raise Refused(405, "repo is not owned by an organization")
    return Response(200, [api.shapes.team(team) for team in api.contents.teams])


def team_members(api: Api, number: int, login: str | None, asker: str) -> Response:
    """One, or all. For owners of the organization and members of the team (routers/api/v1/api.go:521-556)."""
    team = next((team for team in api.contents.teams or () if team.id == number), None)
    if team is None:
        raise Refused(404, "not found")
    if asker not in team.members and api.permission(asker) != "owner":
        in_organization = any(asker in other.members for other in api.contents.teams or ())
        raise Refused(*((403, "Must be a team member") if in_organization else (404, "not found")))
    if login is None:
        return Response(200, [api.shapes.user(member) for member in sorted(team.members)])
    if login not in team.members:
        raise Refused(404, "not found")
    return Response(200, api.shapes.user(login))


@route("GET", "", "repository")
def read_repository(api: Api, request: Request, _: re.Match[str]) -> Response:
    return Response(200, api.shapes.repository(request.user))


def require(body: Mapping[str, Json], *names: str) -> None:
    """An empty text is as good as none to the form's `Required`."""
    for name in names:
        if not body.get(name):
            raise Refused(422, f"[{name.title()}]: Required")
