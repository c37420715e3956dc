"""`publish.mode: pull_request`: a verified commit is proposed on a branch of its own, never pushed to the target (R15).

The branch is named after the issue, so what a crash left is found again: looked for first, then made. It is never
forced: a later attempt stands on what was pushed, and on what people have added to it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App
from irontree.domain.checks import CheckReport, coverage
from irontree.domain.plan import Criterion, Plan, PlanNode, PublishPolicy
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, NoSuchBranch, PublicationRefused, RemoteFailed, RemoteUnavailable
from irontree.ports import Moved, PullRequest
from irontree.services.execution.publication import BRANCH_MOVED, Never, NotNow, patiently
from irontree.services.record.record import closing_policy
from irontree.services.record.refs import quiet, request_branch, summary
from irontree.services.record.world import World
from irontree.services.views.values import RequestView

STATUS_NAME: Final = "irontree/verify"
"""Of our own commit status: what CI says stands beside it."""

_LOOK_AT_FORGE: Final = "look at the branch and its requests on the forge, put that right, then go on"


@dataclass(frozen=True, slots=True)
class Proposed:
    """The commit is the newest of an open request to merge."""

    number: int
    url: str


def proposes(plan: Plan) -> bool:
    """Whether code of this plan goes to a branch of its own."""
    return plan.policy.publish.mode == "pull_request"


def branch_policy(plan: Plan, state: TaskState, node: PlanNode) -> PublishPolicy:
    """Where this task's commits are pushed to."""
    return plan.policy.publish.on_branch(request_branch(state, node))


def base_of_request(app: App, plan: Plan, state: TaskState, node: PlanNode) -> str:
    """What an attempt stands on: the tip of the task's branch, with what people pushed there; else the target's.

    What is left of a branch that was merged is not gone on with. A commit that was neither pushed nor merged is
    replaced on its own base. Raises RemoteFailed.
    """
    try:
        tip = patiently(app, lambda: app.repository.base(branch_policy(plan, state, node)))
    except NoSuchBranch:  # nothing was proposed yet, or somebody deleted it
        tip = ""
    asked = tip or state.request is not None
    last = patiently(app, lambda: newest_request(app, plan, state, node)) if asked else None
    merged = last if last and last.merged else None

    def has_left(sha: str) -> bool:
        if merged and has_merged(app, plan, state, node, merged, sha):
            return True
        return app.repository.contains(tip, sha)

    if state.commit and state.has_code and state.base_sha and not has_left(state.commit):
        return state.base_sha
    return tip if tip and not merged else patiently(app, lambda: app.repository.base(plan.policy.publish))


def has_merged(app: App, plan: Plan, state: TaskState, node: PlanNode, request: PullRequest, sha: str) -> bool:
    """Whether the merge of *request* brought *sha* to the target: in its history, squashed, or to the letter.

    Others may have added to its branch, or put other work there. Raises RemoteFailed.
    """
    if app.repository.lacking((request.head_sha,)):
        with suppress(NoSuchBranch):  # deleted, as forges do after a merge
            patiently(app, lambda: app.repository.base(branch_policy(plan, state, node)))
    if app.repository.contains(request.head_sha, sha):
        return True
    merge, target = request.merge_sha or request.head_sha, app.repository.base(plan.policy.publish)
    same = app.repository.contains(target, merge) and not app.repository.changed_files(sha, merge)
    return same or app.repository.contains(target, sha)


def propose_commit(
    app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport
) -> Proposed | NotNow | Never:
    """Push the verified commit to its branch, and have one open request for it; the same again changes nothing.

    One that was merged before the log could name it is that request (ruling R9).
    """
    try:
        last = patiently(app, lambda: newest_request(app, plan, state, node))
        if last and last.merged and has_merged(app, plan, state, node, last, report.anchor):
            return Proposed(last.number, last.url)
        where = branch_policy(plan, state, node)
        pushed = patiently(app, lambda: app.repository.publish(report.anchor, where))
        if isinstance(pushed, Moved):
            return _left(last, where.target_branch) if last and last.merged else _moved(where.target_branch)
        request = patiently(app, lambda: _have_request(app, world, state, plan, node, report))
    except RemoteUnavailable as error:
        return NotNow(error.message)
    except PublicationRefused as error:
        return Never(error.reason, error.message, error.remedy or "")
    except RemoteFailed as error:
        return Never("request-refused", error.message, error.remedy or _LOOK_AT_FORGE)
    _say_verified(app, report)
    return Proposed(request.number, request.url)


def newest_request(app: App, plan: Plan, state: TaskState, node: PlanNode) -> PullRequest | None:
    """The newest one to merge this task's branch into the target, in whatever state; one to elsewhere is not ours."""
    found = app.forge().find_pull_requests(request_branch(state, node))
    ours = [request for request in found if request.base_branch == plan.policy.publish.target_branch]
    return next((request for request in ours if request.state == "open"), ours[-1] if ours else None)


def _have_request(
    app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport
) -> PullRequest:
    """The open request of the branch; a draft as long as the log does not call its commit verified (R15)."""
    forge, there = app.forge(), newest_request(app, plan, state, node)
    title, body = summary(node.title), _body(app, world, state, plan, node, report)
    if there is None or there.state != "open":
        branch, target = request_branch(state, node), plan.policy.publish.target_branch
        return forge.create_pull_request(head=branch, base=target, title=title, body=body, draft=True)
    return there if there.body == body else forge.edit_pull_request(there.number, body=body)


def _body(app: App, world: World, state: TaskState, plan: Plan, node: PlanNode, report: CheckReport) -> str:
    parent, covered = world.states.get(node.parent or ""), coverage(node, plan.policy, report.cited)
    view = RequestView(
        number=state.issue_number,
        node=node.model_copy(update={"description": quiet(node.description)}),
        parent=f"#{parent.issue_number}" if parent else None,
        coverage=tuple(replace(item, criterion=_quiet(item.criterion)) for item in covered),
        closes=closing_policy(app, node) == "auto",
    )
    return app.renderer.render("issues/request.md", request=view)


def _quiet(criterion: Criterion) -> Criterion:
    return criterion.model_copy(update={"text": quiet(criterion.text)})


def _say_verified(app: App, report: CheckReport) -> None:
    """A status beside those of CI, for whoever looks at the request; without one nothing is missing."""
    with suppress(*FORGE_FAILED):
        said = f"{len(report.results)} checks passed at this commit"
        app.forge().set_commit_status(report.anchor, name=STATUS_NAME, state="success", description=said)


def _left(request: PullRequest, branch: str) -> Never:
    return Never(
        "request-branch-left",
        f"{branch} is what was left of request #{request.number}, which was merged",
        "delete that branch on the remote, then go on: the new work is proposed from where the target is now",
    )


def _moved(branch: str) -> Never:
    return Never(
        BRANCH_MOVED,
        f"somebody else pushed to {branch}, and this work does not stand on that",
        "go on to let the agent redo it on top of what is there",
    )
