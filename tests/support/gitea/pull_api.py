"""Gitea's answers about pull requests and their reviews."""

from __future__ import annotations

import re

from tests.support.gitea.api import Api, Refused, Request, Response, edit, page_of, route


@route("GET", "pulls", "repository")
def list_pulls(api: Api, request: Request, _: re.Match[str]) -> Response:
    """An empty repository has no list, not even just after its first push (routers/api/v1/api.go, mustAllowPulls)."""
    if api.contents.empty or not api.contents.has_pull_requests:
        raise Refused(404, "not found")
    state = request.query.get("state", "open")
    newest_first = sorted(api.contents.issues.items(), reverse=True)
    chosen = [issue for _, issue in newest_first if issue.pull and state in {"all", issue.state}]
    return page_of(api, request, [api.shapes.pull(i, i.pull, request.user) for i in chosen if i.pull])


@route("POST", "pulls", "repository")
def create_pull(api: Api, request: Request, _: re.Match[str]) -> Response:
    head, base = request.body["head"], request.body["base"]
    if head == base:
        raise Refused(422, "Invalid PullRequest: There are no changes between the head and the base")
    if not {head, base} <= api.contents.branches.keys():
        raise Refused(404, "not found")
    for issue in api.contents.issues.values():
        if issue.pull and issue.state == "open" and (issue.pull.head, issue.pull.base) == (head, base):
            raise Refused(
                409, f"pull request already exists for these targets [head_branch: {head}, base_branch: {base}]"
            )
    issue = api.contents.new_pull(request.user, request.body["title"], request.body.get("body", ""), head, base)
    assert issue.pull
    return Response(201, api.shapes.pull(issue, issue.pull, request.user))


@route("GET", r"pulls/(\d+)", "repository")
def read_pull(api: Api, request: Request, found: re.Match[str]) -> Response:
    issue = api.pull(found[1])
    assert issue.pull
    return Response(200, api.shapes.pull(issue, issue.pull, request.user))


@route("PATCH", r"pulls/(\d+)", "repository")
def edit_pull(api: Api, request: Request, found: re.Match[str]) -> Response:
    issue = api.pull(found[1])
    assert issue.pull
    edit(api, issue, request)
    return Response(201, api.shapes.pull(issue, issue.pull, request.user))


@route("GET", r"pulls/(\d+)/reviews", "repository")
def list_reviews(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Reviews that others have not handed in are left out of the pages, but not of the count."""
    issue = api.pull(found[1])
    assert issue.pull
    page = page_of(api, request, issue.pull.reviews, link=False)
    shown = [r for r in page.body if r.state != "PENDING" or r.author == request.user]
    return Response(200, [api.shapes.review(issue, review) for review in shown], page.headers)


@route("POST", r"pulls/(\d+)/requested_reviewers", "repository")
def request_reviews(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Answers with reviews that are not handed in: of the state REQUEST_REVIEW, and no author may be asked."""
    issue = api.pull(found[1])
    if not api.can_write(request.user):
        raise Refused(403, "no permission")
    if request.body.get("team_reviewers"):
        raise Refused(422, "review request: owner is not an organization")
    for login in request.body.get("reviewers") or ():
        if login not in api.contents.accounts:
            raise Refused(404, f"user does not exist [name: {login}]")
        if login == issue.author:
            raise Refused(422, "poster of pr can't be reviewer")
        if login not in issue.requested:  # Gitea passes over who was asked already
            issue.requested.append(login)
    return Response(201, [])


@route("GET", r"pulls/(\d+)/reviews/(\d+)/comments", "repository")
def list_remarks(api: Api, _: Request, found: re.Match[str]) -> Response:
    """In no order: Gitea keeps them in a map."""
    issue = api.pull(found[1])
    assert issue.pull
    review = next((review for review in issue.pull.reviews if review.id == int(found[2])), None)
    if review is None:
        raise Refused(404, "not found")
    return Response(200, [api.shapes.remark(issue, review, remark) for remark in reversed(review.remarks)])


@route("POST", r"pulls/(\d+)/reviews", "repository")
def create_review(api: Api, request: Request, found: re.Match[str]) -> Response:
    """Whoever may read may review, but nobody judges a request of their own (routers/api/v1/repo/pull_review.go)."""
    issue, state, body = api.pull(found[1]), request.body["event"], request.body.get("body", "")
    if request.user == issue.author and state != "COMMENT":
        word = "approve" if state == "APPROVED" else "reject"
        raise Refused(422, f"{word} your own pull is not allowed")
    if not body.strip() and state != "APPROVED":
        raise Refused(422, f"review event {state} requires a body")
    review = api.contents.review(issue.number, request.user, state, body)
    review.commit = request.body.get("commit_id") or review.commit
    return Response(200, api.shapes.review(issue, review))


@route("POST", r"pulls/(\d+)/merge", "repository")
def merge(api: Api, request: Request, found: re.Match[str]) -> Response:
    """What is closed is not there; the reasons are those of routers/api/v1/repo/pull.go."""
    issue = api.pull(found[1])
    assert issue.pull
    if issue.pull.merge_sha:
        raise Refused(405, "The PR is already merged")
    if issue.state == "closed":
        raise Refused(404, "not found")
    if not api.can_write(request.user):
        raise Refused(405, "User not allowed to merge PR")
    if issue.draft:
        raise Refused(405, "Work in progress PRs cannot be merged")
    if request.body["Do"] not in api.contents.merge_styles:
        raise Refused(405, f"{request.body['Do']} is not allowed an allowed merge style for this repository")
    if request.body.get("head_commit_id") not in (None, "", api.contents.head_of(issue)):
        raise Refused(409, "head out of date")
    api.contents.merge(issue.number, request.user, f"{issue.number:040x}")
    return Response(200)
