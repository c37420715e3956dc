"""Issues that are assigned to members of the team: which these are, and whom such an assignment approves (B4)."""

from __future__ import annotations

from typing import Final

from irontree.app import App
from irontree.domain.agents import Member
from irontree.domain.assignment import Assignment, assigned_member, why_asked
from irontree.domain.issues import Issue
from irontree.domain.plan import ExecutionPolicy
from irontree.services.proposals.proposal import Proposal
from irontree.services.record import read_world

ASSIGNMENT: Final = "assignment"
"""The channel of such an approval."""


def assigned_issues(app: App) -> tuple[tuple[Issue, Member], ...]:
    """The open issues that are assigned to a member, oldest first; one call, none without a member that has an account.

    Raises RemoteFailed, and what reading the settings raises.
    """
    team = app.policy(None).team if app.preferences().has_toolchain else ()
    if not any(member.account for member in team):
        return ()
    found = ((issue, assigned_member(issue, team)) for issue in app.forge().open_issues())
    return tuple((issue, member) for issue, member in found if member)


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
    why = why_asked(task.plan, issue, assignment, app.agent_requests.standing())
    if why:
        app.progress.note(f"#{issue.number} is assigned to {member.name}, and a person is asked anyway: {why}")
    return "" if why else assignment.by or ""


def _assignment(app: App, issue: Issue, member: Member, policy: ExecutionPolicy) -> Assignment:
    login = next(login for login in issue.assignees if login.casefold() == (member.account or "").casefold())
    by = app.forge().assigner(issue.number, login)
    return Assignment(member, by, by is not None and not policy.is_agents(by) and app.forge().may_write(by))
