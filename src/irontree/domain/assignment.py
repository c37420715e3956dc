"""When the assignment of an issue to a member of the team is its approval (T4)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from irontree.domain.adoption import OWN_COMMENT, counts
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.agents import Member
from irontree.domain.ids import adopted_digest
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import Plan
from irontree.domain.timestamps import moment

SAME_MOMENT: Final = timedelta(seconds=2)
"""By how much a forge may say that an issue changed later than the assignment that changed it."""


class Assignment(NamedTuple):
    """Who assigned an issue to which member."""

    member: Member
    by: str | None
    """None where the forge does not say."""
    by_writer: bool
    """Whether that account has write access, and is no agent's."""
    at: str = ""
    """When, by the forge's clock; empty where it does not say."""


class Seen(NamedTuple):
    """An issue as the forge showed it after it was read as a task."""

    issue: Issue
    comments: tuple[Comment, ...]
    changed_at: str
    """When anything of the issue last changed, by the forge's clock; empty where it does not say."""


def assigned_member(issue: Issue, team: Iterable[Member]) -> Member | None:
    """The first of *team* to whose account the issue is assigned; None if there is none, or the issue is not open."""
    assignees = {login.casefold() for login in issue.assignees} if issue.state == "open" else set()
    return next((member for member in team if member.account and member.account.casefold() in assignees), None)


def why_asked(plan: Plan, seen: Seen, assignment: Assignment, standing: StandingApproval | None) -> str:
    """Why a person is asked to approve this issue anyway; empty if the assignment is the approval."""
    if standing is None or not standing.assignment:
        return "nobody approved that assignments approve"
    policy, node, issue = plan.policy, plan.nodes[0], seen.issue
    author, gates = policy.author_of(node), policy.gates_of(node)
    reasons = (
        (policy.digest != standing.policy.digest, "its settings are not those that were approved for the team"),
        (not assignment.by, "the forge does not say who assigned it"),
        (not assignment.by_writer, f"{assignment.by} has no write access, or is an agent"),
        (not issue.trusted, f"its text is by {issue.author}, who has no write access"),
        (policy.is_agents(issue.author), f"its text is by {issue.author}, who is an agent"),
        (OWN_COMMENT in issue.body, "this program wrote it, with what an agent said"),
        (bool(node.open_questions), "it leaves questions open"),
        (gates is not None and gates.approval is not None, "the gate “approval” guards it"),
        (author != assignment.member, f"{author.known_as} works on tasks of type {node.type}"),
        (not _is_as_assigned(plan, seen, assignment), "nothing proves that it is what it was when it was assigned"),
    )
    return next((why for applies, why in reasons if applies), "")


def _is_as_assigned(plan: Plan, seen: Seen, assignment: Assignment) -> bool:
    """Whether the plan was read from the text and comments that were there when the issue was assigned.

    No forge says when a text was edited, only when anything last changed. A later comment explains no change: it could
    hide an edit before it. An edited comment may have been edited without a change of the issue.
    """
    assigned, changed = moment(assignment.at), moment(seen.changed_at)
    if assigned is None or changed is None or changed - assigned > SAME_MOMENT:
        return False
    told = [each for each in seen.comments if counts(seen.issue, each) and not plan.policy.is_agents(each.author)]
    posted = [moment(each.created_at) for each in told if not each.edited]
    return (
        plan.digest == adopted_digest(seen.issue.title, seen.issue.body)
        and len(posted) == len(told)
        and all(at is not None and at <= assigned for at in posted)
    )
