"""Merging a request of ours where the plan says so, once a person has approved exactly what was verified.

The merge is then that person's acceptance, and not ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from irontree.app import App
from irontree.domain.plan import Plan
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED
from irontree.ports import CommitCheck, PullRequest
from irontree.services.execution.publication import has_ci


def merge_where_approved(
    app: App, state: TaskState, plan: Plan, request: PullRequest, checks: Sequence[CommitCheck]
) -> bool:
    """Merge it if a person's review approves of the verified commit and CI is green; whether that was done.

    What the forge refuses is told, and tried again at the next look. Raises RemoteFailed.
    """
    gates = plan.policy.gates_of(plan.node(state.task_key))
    if plan.policy.publish.merge is None or (gates and gates.acceptance):  # such a gate counts comments alone
        return False
    if request.draft or request.head_sha != state.anchor or not _is_green(app, state, checks):
        return False
    by = approver_of(app, plan, request, request.head_sha)
    if not by:
        return False
    try:
        app.forge().merge_pull_request(request.number, request.head_sha)
    except FORGE_FAILED as error:
        app.progress.note(f"request #{request.number}, which {by} approved, is not merged yet: {error.message}")
        return False
    return True


def _is_green(app: App, state: TaskState, checks: Sequence[CommitCheck]) -> bool:
    """Whether CI has passed; where it is expected, it must have begun."""
    return all(check.state == "success" for check in checks) and (bool(checks) or not has_ci(app, state))


def approver_of(app: App, plan: Plan, request: PullRequest, anchor: str) -> str:
    """The person whose review approves of that commit; empty if there is none, or somebody asks for changes in it.

    Of each person the newest word counts. Neither our account nor one of the team is a person's (T3).
    """
    account = app.forge().about().account.casefold()
    words = [one for one in app.forge().reviews(request.number) if one.commit == anchor and one.verdict != "commented"]
    newest = [one for one in {one.author: one for one in words}.values() if one.trusted]
    if any(one.verdict == "changes_requested" for one in newest):
        return ""
    people = (one.author for one in newest if one.verdict == "approved" and not plan.policy.is_agents(one.author))
    return next((author for author in people if author.casefold() != account), "")


def accepted_by(app: App, plan: Plan, request: PullRequest, anchor: str) -> str | None:
    """Who accepts with the merge: who merged it, but if that was we, who approved it. Raises RemoteFailed."""
    if plan.policy.publish.merge is None or request.merged_by != app.forge().about().account:
        return request.merged_by
    return approver_of(app, plan, request, anchor) or request.merged_by
