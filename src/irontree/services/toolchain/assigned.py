"""Issues that are assigned to members of the team: which these are, and whom such an assignment approves (B4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from irontree.app import App
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.assignment import SAME_MOMENT, Assignment, Seen, assigned_member, why_asked
from irontree.domain.issues import Issue
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.task_types import INFRASTRUCTURE, reports_failure
from irontree.domain.timestamps import parsed, utc_text
from irontree.services.proposals.proposal import Proposal
from irontree.services.record import read_world

ASSIGNMENT: Final = "assignment"
"""The channel of such an approval."""


def assigned_issues(app: App) -> tuple[tuple[Issue, Member], ...]:
    """The open issues that are assigned to a member, oldest first, and those that say that a deployment failed.

    The latter, by somebody with write access, are those of the member that works on infrastructure. One call, none
    where nobody would be found. Raises RemoteFailed, and what reading the settings raises.
    """
    if not app.preferences().has_toolchain:
        return ()
    policy = app.policy(None)
    repairer = policy.author_for(INFRASTRUCTURE.name)
    if not isinstance(repairer, Member) and not any(member.account for member in policy.team):
        return ()
    found = ((issue, _whose(issue, policy.team, repairer)) for issue in app.forge().open_issues())
    return tuple((issue, member) for issue, member in found if member)


def _whose(issue: Issue, team: Sequence[Member], repairer: AgentSpec) -> Member | None:
    failed = isinstance(repairer, Member) and issue.trusted and not issue.assignees and reports_failure(issue.title)
    return assigned_member(issue, team) or (repairer if failed and isinstance(repairer, Member) else None)


def approver_by_assignment(app: App, wanted: Proposal) -> str:
    """The account whose assignment approves this issue; empty if a person has to be asked, and a note says why.

    An issue that was taken in before is asked about: nobody assigned it as it is now. Raises RemoteFailed, LogDamaged.
    """
    tasks = wanted.draft.tasks
    if not app.preferences().approves_by_assignment or wanted.draft.whole or len(tasks) != 1:
        return ""
    [task] = tasks
    if read_world(app).find(task.number):
        return ""
    issue = app.forge().read_issue(task.number)
    member = assigned_member(issue, task.plan.policy.team) if issue else None
    if issue is None or member is None:
        return ""
    assignment = _assignment(app, issue, member, task.plan.policy)
    seen = _seen(app, issue, assignment)
    why = why_asked(task.plan, seen, assignment, app.agent_requests.standing())
    if why:
        app.progress.note(f"#{issue.number} is assigned to {member.name}, and a person is asked anyway: {why}")
    return "" if why else assignment.by or ""


def _assignment(app: App, issue: Issue, member: Member, policy: ExecutionPolicy) -> Assignment:
    login = next(login for login in issue.assignees if login.casefold() == (member.account or "").casefold())
    assigned = app.forge().assigner(issue.number, login)
    if assigned is None:
        return Assignment(member, None, by_writer=False)
    by_writer = not policy.is_agents(assigned.by) and app.forge().may_write(assigned.by)
    return Assignment(member, assigned.by, by_writer, assigned.at)


def _seen(app: App, issue: Issue, assignment: Assignment) -> Seen:
    """The issue and the moment of its last change, both of one answer, which comes after what was read as a task."""
    comments = app.forge().comments(issue.number)
    since = utc_text(parsed(assignment.at) - SAME_MOMENT) if assignment.at else ""
    changed = app.forge().changed_since(since) if since else ()
    found = next((each for each in changed if each.issue.number == issue.number), None)
    return Seen(found.issue, comments, found.at) if found else Seen(issue, comments, "")
