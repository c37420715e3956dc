"""What the double of GitHub answers to the calls that the adapter makes, and why it refuses others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote, urlencode

from tests.support.github.shapes import Shapes
from tests.support.github.state import Hub, Record, Reply, Request

_DOCS: Final = "https://docs.github.com/rest"
BODY_LIMIT: Final = 65_536
RULESET: Final = 7
NO_DRAFTS: Final = "Draft pull requests are not supported in this repository."


class Refusal(Exception):
    """Answered instead of doing it."""

    def __init__(self, status: int, message: str, *errors: Record) -> None:
        super().__init__(message)
        found = {"errors": list(errors)} if errors else {}
        self.reply = Reply(status, {"message": message, "documentation_url": _DOCS} | found)


Handler = Callable[["Routes", Request, "re.Match[str]"], Reply]
ROUTES: list[tuple[str, re.Pattern[str], str, Handler]] = []


def route(verb: str, template: str) -> Callable[[Handler], Handler]:
    """Serve *template*, a path of the official description; {owner}/{repo} is the one repository."""
    pattern = re.sub(r"\\{(\w+(?:_id|_number))\\}", r"(?P<\1>\\d+)", re.escape(template))
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", pattern)

    def register(handler: Handler) -> Handler:
        ROUTES.append((verb, re.compile(f"{pattern}$"), template, handler))
        return handler

    return register


class Routes:
    """The API of one hub."""

    def __init__(self, hub: Hub, root: str) -> None:
        self.hub = hub
        self.shapes = Shapes(hub, root)

    def template(self, request: Request) -> str:
        """The described path that serves the request; empty for none."""
        return next((t for v, p, t, _ in ROUTES if v == request.verb and p.match(request.path)), "")

    def answer(self, request: Request) -> Reply:
        try:
            return self._answer(request)
        except Refusal as refusal:
            return refusal.reply

    def _answer(self, request: Request) -> Reply:
        for verb, pattern, _, handler in ROUTES:
            found = pattern.match(request.path)
            if found and verb == request.verb:
                self._admit(request, found)
                return handler(self, request, found)
        raise Refusal(404, "Not Found")

    def by_id(self, request: Request, key: int) -> Record:
        """The issue with that id of GitHub's own, for somebody who may relate it."""
        self.require_write(request)
        found = next((r for r in self.hub.issues.values() if self.shapes.issue(r)["id"] == key), None)
        if found is None or not self.hub.relations:
            raise Refusal(404, "Not Found")
        return found

    def _admit(self, request: Request, found: re.Match[str]) -> None:
        parts = found.groupdict()
        if not request.account:
            raise Refusal(401, "Bad credentials" if "authorization" in request.headers else "Requires authentication")
        if "repo" not in parts:
            return
        if parts["repo"] in self.hub.names_of_old:
            self._redirect(request, parts["repo"])
        if f"{parts['owner']}/{parts['repo']}" != self.hub.full_name or self.hub.right(request.account) == "none":
            raise Refusal(404, "Not Found")
        if self.hub.archived and request.verb != "GET":
            raise Refusal(403, "Repository was archived so is read-only.")

    def _redirect(self, request: Request, old: str) -> None:
        """A renamed repository: 301 for reading, 307 for all else."""
        path = request.path.replace(f"/{old}", f"/{self.hub.name}", 1)
        refusal = Refusal(301 if request.verb == "GET" else 307, "Moved Permanently")
        refusal.reply.body["url"] = f"{self.shapes.api}{path}"
        refusal.reply.headers["Location"] = f"{self.shapes.api}{path}"
        raise refusal

    # --- helpers of the handlers --------------------------------------------------------------------------

    def page_of(self, request: Request, items: list[Any], wrap: str | None = None) -> Reply:
        """One page, with the link to the next."""
        size = min(int(request.query.get("per_page", 30)), self.hub.largest_page)
        number = int(request.query.get("page", 1))
        page = items[(number - 1) * size : number * size]
        headers = {}
        if number * size < len(items):
            following = urlencode({**request.query, "page": number + 1})
            headers["Link"] = (
                f'<{self.shapes.api}/repositories/42/x?{following}>; rel="next", <{self.shapes.api}>; rel="last"'
            )
        return Reply(200, {wrap: page, "total_count": len(items)} if wrap else page, headers)

    def require_write(self, request: Request) -> None:
        if not self.hub.may_write(request.account):
            raise Refusal(403, "Must have write access to the repository.")

    def issue(self, number: str) -> Record:
        """The record; refuses one that is not there, was deleted, or may not be."""
        if int(number) in self.hub.deleted:
            raise Refusal(410, "This issue was deleted")
        record = self.hub.issues.get(int(number))
        if record is None:
            raise Refusal(404, "Not Found")
        if not self.hub.has_issues and "head" not in record:
            raise Refusal(410, "Issues are disabled for this repo")
        return record

    def pull(self, number: str) -> Record:
        record = self.hub.issues.get(int(number))
        if record is None or "head" not in record:
            raise Refusal(404, "Not Found")
        if not record.get("merged_at"):
            record["head_sha"] = self.hub.branches.get(record["head"], record["head_sha"])
        return record

    def checked(self, text: str | None, field: str, limit: int) -> str:
        if text is not None and len(text) > limit:
            raise Refusal(
                422,
                "Validation Failed",
                {"resource": "Issue", "code": "custom", "field": field, "message": f"{field} is too long"},
            )
        return text or ""

    def new_issue(self, request: Request, **more: Any) -> Record:
        number = max([*self.hub.issues, *self.hub.deleted], default=0) + 1
        record: Record = {
            "number": number,
            "title": self.checked(request.body["title"], "title", 256).strip(),
            "body": self.checked(request.body.get("body"), "body", BODY_LIMIT),
            "state": "open",
            "labels": set(),
            "author": request.account,
            "updated_at": self.hub.now,
            **more,
        }
        self.hub.issues[number] = record
        return record

    def give_labels(self, record: Record, names: Iterable[str]) -> None:
        """As GitHub does it: an unknown label is made on the way, and case does not matter."""
        for name in names:
            known = self.hub.labels.setdefault(name.casefold(), self._label(name, "ededed", None))
            record["labels"] = {*record["labels"], known["name"]}

    def _label(self, name: str, color: str, description: str | None) -> Record:
        key = self.hub.new_id()
        about = {"id": key, "node_id": f"L_{key}", "name": name, "color": color}
        return about | {"description": description, "default": False}

    def change(self, record: Record, request: Request) -> None:
        """PATCH of an issue or a pull request."""
        if not (self.hub.may_write(request.account) or record["author"] == request.account):
            raise Refusal(403, "Must have admin rights to Repository.")
        body = request.body
        if "title" in body:
            record["title"] = self.checked(body["title"], "title", 256).strip()
        if "body" in body:
            record["body"] = self.checked(body["body"], "body", BODY_LIMIT)
        if body.get("state", record["state"]) != record["state"]:
            record["closed_by"] = request.account
        record["state"] = body.get("state", record["state"])
        record["updated_at"] = self.hub.now


# --- the repository and accounts ------------------------------------------------------------------------------


@route("GET", "/user")
def _user(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    if request.account.endswith("[bot]"):
        raise Refusal(403, "Resource not accessible by integration")
    return Reply(200, routes.shapes.account(request.account))


@route("GET", "/repos/{owner}/{repo}")
def _repository(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.repository(request.account))


@route("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission")
def _permission(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    routes.require_write(request)
    login = unquote(found["username"])
    right = routes.hub.right(login)
    return Reply(
        200, {"permission": right, "role_name": right, "user": routes.shapes.user(login) | {"role_name": right}}
    )


@route("GET", "/repos/{owner}/{repo}/rules/branches/{branch}")
def _rules(routes: Routes, _: Request, found: re.Match[str]) -> Reply:
    """For whoever may read; the branch need not be there."""
    about = {"ruleset_source_type": "Repository", "ruleset_source": routes.hub.full_name, "ruleset_id": RULESET}
    return Reply(200, [{"type": kind, **about} for kind in routes.hub.rules.get(unquote(found["branch"]), ())])


@route("GET", "/repos/{owner}/{repo}/rulesets/{ruleset_id}")
def _ruleset(routes: Routes, _: Request, found: re.Match[str]) -> Reply:
    if int(found["ruleset_id"]) != RULESET:
        raise Refusal(404, "Not Found")
    told = {} if routes.hub.bypass is None else {"current_user_can_bypass": routes.hub.bypass}
    about = {"id": RULESET, "name": "main", "source": routes.hub.full_name, "enforcement": "active"}
    return Reply(200, about | told)


@route("GET", "/repos/{owner}/{repo}/branches/{branch}/protection")
def _protection(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    if routes.hub.right(request.account) != "admin":
        raise Refusal(404, "Not Found")
    protection = routes.hub.protection.get(unquote(found["branch"]))
    if protection is None:
        raise Refusal(404, "Branch not protected")
    return Reply(200, protection)


@route("POST", "/app/installations/{installation_id}/access_tokens")
def _installation(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    login = routes.hub.apps.get(int(found["installation_id"]))
    if login is None:
        raise Refusal(404, "Not Found")
    token = f"ghs_{routes.hub.new_id()}"
    routes.hub.tokens[token] = login
    return Reply(201, {"token": token, "expires_at": "2099-01-01T00:00:00Z", "permissions": {"issues": "write"}})


@route("POST", "/graphql")
def _graphql(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    query = request.body["query"]
    if "viewer" in query:
        return Reply(200, {"data": {"viewer": {"login": request.account}}})
    name = next(name for name in ("convertPullRequestToDraft", "markPullRequestReadyForReview") if name in query)
    node = request.body["variables"]["id"]
    record = next((r for r in routes.hub.issues.values() if f"N_{r['number']}" == node and "head" in r), None)
    if record is None or not routes.hub.may_write(request.account):
        return Reply(200, {"data": {name: None}, "errors": [{"type": "FORBIDDEN", "message": "not allowed"}]})
    if name == "convertPullRequestToDraft" and not routes.hub.drafts:
        return Reply(200, {"data": {name: None}, "errors": [{"type": "UNPROCESSABLE", "message": NO_DRAFTS}]})
    record["draft"] = name == "convertPullRequestToDraft"
    return Reply(200, {"data": {name: {"clientMutationId": None}}})


# --- issues ---------------------------------------------------------------------------------------------------


@route("GET", "/repos/{owner}/{repo}/issues")
def _issues(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    hub, query = routes.hub, request.query
    if not hub.has_issues:
        raise Refusal(410, "Issues are disabled for this repo")
    numbers = sorted(hub.issues)[: len(hub.issues) - hub.lag]
    if hub.breaks_behind is not None and len(numbers) > hub.breaks_behind:
        raise Refusal(502, "Server Error")
    records = [hub.issues[number] for number in numbers]
    wanted = set(filter(None, query.get("labels", "").split(",")))
    since = datetime.fromisoformat(query.get("since", "1970-01-01T00:00:00Z"))
    state = query.get("state", "open")
    shown = [
        routes.shapes.issue(record)
        for record in records
        if state in {"all", record["state"]}
        and wanted <= record["labels"]
        and datetime.fromisoformat(record["updated_at"]) >= since
    ]
    if query.get("sort") == "updated":
        shown.sort(key=lambda issue: issue["updated_at"])
    if query.get("direction", "desc") == "desc":
        shown.reverse()
    return routes.page_of(request, shown)


@route("POST", "/repos/{owner}/{repo}/issues")
def _create_issue(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    if not routes.hub.has_issues:
        raise Refusal(410, "Issues are disabled for this repo")
    record = routes.new_issue(request)
    if routes.hub.may_write(request.account):  # else they are dropped without a word
        routes.give_labels(record, request.body.get("labels", ()))
    return Reply(201, routes.shapes.issue(record))


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}")
def _read_issue(routes: Routes, _: Request, found: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.issue(routes.issue(found["issue_number"])))


@route("PATCH", "/repos/{owner}/{repo}/issues/{issue_number}")
def _edit_issue(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.issue(found["issue_number"])
    routes.change(record, request)
    return Reply(200, routes.shapes.issue(record))


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
def _comments(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    number = routes.issue(found["issue_number"])["number"]
    since = request.query.get("since", "")
    records = (c for c in routes.hub.comments.values() if c["number"] == number)
    shown = [shape for shape in map(routes.shapes.comment, records) if shape["updated_at"] >= since]
    return routes.page_of(request, shown)


@route("GET", "/repos/{owner}/{repo}/issues/comments")
def _all_comments(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    """`sort` and `direction` are heeded only together; without them the oldest come first."""
    since = request.query.get("since", "")
    shown = [
        shape for shape in map(routes.shapes.comment, routes.hub.comments.values()) if shape["updated_at"] >= since
    ]
    if request.query.get("sort"):
        shown.sort(key=lambda shape: shape["updated_at"], reverse=request.query.get("direction") != "asc")
    return routes.page_of(request, shown)


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
def _create_comment(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    number = routes.issue(found["issue_number"])["number"]
    body = routes.checked(request.body["body"], "body", BODY_LIMIT)
    if not body.strip():
        raise Refusal(422, "Validation Failed", {"resource": "IssueComment", "code": "missing_field", "field": "body"})
    key = routes.hub.new_id()
    record = {"id": key, "number": number, "body": body, "author": request.account, "created_at": routes.hub.now}
    routes.hub.comments[key] = record
    routes.hub.issues[number]["updated_at"] = routes.hub.now
    return Reply(201, routes.shapes.comment(record))


@route("POST", "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions")
def _react(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    """A second reaction of one kind by one account is answered with 200, and is the first."""
    record = routes.hub.comments.get(int(found["comment_id"]))
    if record is None:
        raise Refusal(404, "Not Found")
    kind, reactions = request.body["content"], record.setdefault("reactions", {})
    known = (request.account, kind) in reactions
    key = reactions.setdefault((request.account, kind), routes.hub.new_id())
    return Reply(200 if known else 201, routes.shapes.reaction(key, request.account, kind))


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/assignees")
def _assign(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    """Who cannot be assigned is left out without a word, and so is everybody for who may not write."""
    record = routes.issue(found["issue_number"])
    if routes.hub.may_write(request.account):
        known = [who for who in request.body["assignees"] if routes.hub.may_write(who)]
        routes.hub.assign(record, known, request.account)
    return Reply(201, routes.shapes.issue(record))


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}/events")
def _events(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.issue(found["issue_number"])
    return routes.page_of(request, [*map(routes.shapes.event, record.get("events", ()))])


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/sub_issues")
def _add_part(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    parent = routes.issue(found["issue_number"])
    part = routes.by_id(request, request.body["sub_issue_id"])
    parent.setdefault("parts", []).append(part["number"])
    return Reply(201, routes.shapes.issue(parent))


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/dependencies/blocked_by")
def _depend(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.issue(found["issue_number"])
    other = routes.by_id(request, request.body["issue_id"])
    record.setdefault("dependencies", []).append(other["number"])
    return Reply(201, routes.shapes.issue(record))


# --- labels ---------------------------------------------------------------------------------------------------


@route("GET", "/repos/{owner}/{repo}/labels")
def _labels(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    return routes.page_of(request, [routes.shapes.label(name) for name in sorted(routes.hub.labels)])


@route("POST", "/repos/{owner}/{repo}/labels")
def _create_label(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    routes.require_write(request)
    body, labels = request.body, routes.hub.labels
    if body["name"].casefold() in labels:
        raise Refusal(422, "Validation Failed", {"resource": "Label", "code": "already_exists", "field": "name"})
    if not re.fullmatch(r"[0-9a-f]{6}", body.get("color", "")):
        raise Refusal(422, "Validation Failed", {"resource": "Label", "code": "invalid", "field": "color"})
    labels[body["name"].casefold()] = routes._label(body["name"], body["color"], body.get("description"))
    return Reply(201, routes.shapes.label(body["name"]))


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/labels")
def _add_labels(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.issue(found["issue_number"])
    routes.require_write(request)
    routes.give_labels(record, request.body["labels"])
    return Reply(200, [routes.shapes.label(name) for name in sorted(record["labels"])])


@route("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}")
def _remove_label(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.issue(found["issue_number"])
    routes.require_write(request)
    name = unquote(found["name"]).casefold()
    kept = {label for label in record["labels"] if label.casefold() != name}
    if kept == record["labels"]:
        raise Refusal(404, "Label does not exist")
    record["labels"] = kept
    return Reply(200, [routes.shapes.label(label) for label in sorted(kept)])
