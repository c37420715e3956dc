"""The double's pull requests, reviews, statuses and check runs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tests.support.github.routes import BODY_LIMIT, NO_DRAFTS, Refusal, Routes, route
from tests.support.github.state import LOG_HOST, Record, Reply, Request


@route("GET", "/repos/{owner}/{repo}/pulls")
def _pulls(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    query, hub = request.query, routes.hub
    wanted, state = query.get("head", ""), query.get("state", "open")
    shown = []
    for number, record in sorted(hub.issues.items()):
        if "head" not in record or state not in {"all", record["state"]}:
            continue
        # Without the owner before it the filter is no filter.
        if ":" in wanted and f"{hub.owner}:{record['head']}" != wanted:
            continue
        shown.append(routes.shapes.listed_pull(routes.pull(str(number))))
    if query.get("direction") != "asc":
        shown.reverse()
    return routes.page_of(request, shown)


@route("POST", "/repos/{owner}/{repo}/pulls")
def _create_pull(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    routes.require_write(request)
    hub, head, base = routes.hub, request.body["head"], request.body["base"]
    if head not in hub.branches:
        raise Refusal(422, "Validation Failed", {"resource": "PullRequest", "field": "head", "code": "invalid"})
    if hub.branches[head] == hub.branches.get(base):
        said = f"No commits between {base} and {head}"
        raise Refusal(422, "Validation Failed", {"resource": "PullRequest", "code": "custom", "message": said})
    if any(record.get("head") == head and record["state"] == "open" for record in hub.issues.values()):
        said = f"A pull request already exists for {hub.owner}:{head}."
        raise Refusal(422, "Validation Failed", {"resource": "PullRequest", "code": "custom", "message": said})
    draft = bool(request.body.get("draft"))
    if draft and not hub.drafts:
        raise Refusal(422, NO_DRAFTS)
    record = routes.new_issue(request, head=head, base=base, head_sha=hub.branches[head], draft=draft)
    return Reply(201, routes.shapes.pull(record))


@route("GET", "/repos/{owner}/{repo}/pulls/{pull_number}")
def _read_pull(routes: Routes, _: Request, found: re.Match[str]) -> Reply:
    return Reply(200, routes.shapes.pull(routes.pull(found["pull_number"])))


@route("PATCH", "/repos/{owner}/{repo}/pulls/{pull_number}")
def _edit_pull(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.pull(found["pull_number"])
    routes.change(record, request)
    return Reply(200, routes.shapes.pull(record))


@route("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews")
def _reviews(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    number = routes.pull(found["pull_number"])["number"]
    return routes.page_of(request, [routes.shapes.review(r) for r in routes.hub.reviews if r["number"] == number])


@route("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/comments")
def _remarks(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    number = routes.pull(found["pull_number"])["number"]
    return routes.page_of(request, [routes.shapes.remark(r) for r in routes.hub.remarks if r["number"] == number])


@route("POST", "/repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers")
def _request_reviews(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    """One name that does not fit refuses them all."""
    routes.require_write(request)
    record, names = routes.pull(found["pull_number"]), request.body.get("reviewers", [])
    if record["author"] in names:
        raise Refusal(422, "Review cannot be requested from pull request author.")
    if request.body.get("team_reviewers") or not all(routes.hub.right(name) != "none" for name in names):
        raise Refusal(422, "Reviews may only be requested from collaborators.")
    record["requested"] = names
    return Reply(201, routes.shapes.listed_pull(record))


@route("POST", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews")
def _create_review(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    """Whoever may read may review, but nobody judges a request of their own."""
    record, event = routes.pull(found["pull_number"]), request.body["event"]
    body = routes.checked(request.body.get("body"), "body", BODY_LIMIT)
    if event != "COMMENT" and record["author"] == request.account:
        word = "approve" if event == "APPROVE" else "request changes on"
        raise Refusal(422, f"Review Can not {word} your own pull request")
    if event != "APPROVE" and not body.strip():
        raise Refusal(422, "Unprocessable Entity")
    state = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}[event]
    review = routes.hub.review(record, request.account, state, body, request.body.get("commit_id"))
    return Reply(200, routes.shapes.review(review))


@route("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge")
def _merge(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    record = routes.pull(found["pull_number"])
    routes.require_write(request)
    if record["state"] == "closed" or record["draft"]:
        raise Refusal(405, "Pull Request is not mergeable")
    method = request.body.get("merge_method", "merge")
    if method not in routes.hub.merge_methods:
        raise Refusal(405, f"{method.title()} merges are not allowed on this repository.")
    if request.body.get("sha") not in (None, record["head_sha"]):
        raise Refusal(409, "Head branch was modified. Review and try the merge again.")
    sha = routes.hub.merge(record["number"], request.account)
    return Reply(200, {"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


def _require_commit(routes: Routes, sha: str) -> str:
    if sha not in routes.hub.commits:
        raise Refusal(422, f"No commit found for SHA: {sha}")
    return sha


@route("GET", "/repos/{owner}/{repo}/commits/{ref}/status")
def _combined(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    sha = _require_commit(routes, found["ref"])
    newest: dict[str, Record] = {record["context"]: record for record in routes.hub.statuses if record["sha"] == sha}
    reply = routes.page_of(request, [routes.shapes.status(record) for record in newest.values()], "statuses")
    url = f"{routes.shapes.repository_url}/commits/{sha}"
    reply.body |= {"state": "pending", "sha": sha, "commit_url": url, "url": f"{url}/status"}
    reply.body["repository"] = routes.shapes.minimal_repository()
    return reply


@route("POST", "/repos/{owner}/{repo}/statuses/{sha}")
def _create_status(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    routes.require_write(request)
    sha = _require_commit(routes, found["sha"])
    body = request.body
    if len(body.get("description") or "") > 140:
        errors = {"resource": "Status", "code": "custom", "field": "description", "message": "description is too long"}
        raise Refusal(422, "Validation Failed", errors)
    record = {key: body.get(key) for key in ("state", "context", "description", "target_url")}
    record |= {"id": routes.hub.new_id(), "sha": sha}
    routes.hub.statuses.append(record)
    return Reply(201, routes.shapes.status(record) | {"creator": routes.shapes.user(request.account)})


@route("GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs")
def _runs(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    sha = _require_commit(routes, found["ref"])
    records = [record for record in routes.hub.runs if record["head_sha"] == sha]
    if request.query.get("filter", "latest") == "latest":  # in each suite
        records = [*{(record.get("suite", 1), record["name"]): record for record in records}.values()]
    return routes.page_of(request, [*map(routes.shapes.run, records)], "check_runs")


@route("GET", "/repos/{owner}/{repo}/actions/runs")
def _workflow_runs(routes: Routes, request: Request, _: re.Match[str]) -> Reply:
    """Newest first."""
    records = routes.hub.workflow_runs
    if records is None:
        raise Refusal(403, "Resource not accessible by personal access token")
    shown = [routes.shapes.workflow_run(record, request.query["head_sha"]) for record in reversed(records)]
    return routes.page_of(request, shown, "workflow_runs")


@route("GET", "/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations")
def _annotations(routes: Routes, request: Request, found: re.Match[str]) -> Reply:
    plain = {"start_column": None, "end_column": None, "title": None, "raw_details": None, "blob_href": "x"}
    noted = routes.hub.annotations.get(int(found["check_run_id"]), [])
    return routes.page_of(
        request, [plain | {"end_line": n["start_line"], "annotation_level": "failure"} | n for n in noted]
    )


@route("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs")
def _log(routes: Routes, _: Request, found: re.Match[str]) -> Reply:
    """A redirect to where logs are kept, which is another host; the address is signed."""
    if int(found["job_id"]) not in routes.hub.logs:
        raise Refusal(404, "Not Found")
    store = f"{LOG_HOST}:{urlsplit(routes.shapes.root).port}"
    return Reply(302, None, {"Location": f"http://{store}/actions-results/{found['job_id']}?sig=x"})
