"""When the assignment of an issue to a member of the team is its approval (T4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from irontree.domain.adoption import OWN_COMMENT
from irontree.domain.agent_requests import StandingApproval
from irontree.domain.agents import Member
from irontree.domain.issues import Issue
from irontree.domain.plan import Plan


class Assignment(NamedTuple):
    """Who assigned an issue to which member."""

    member: Member
    by: str | None
    """None where the forge does not say."""
    by_writer: bool
    """Whether that account has write access, and is no agent's."""


def assigned_member(issue: Issue, team: Iterable[Member]) -> Member | None:
    """The first of *team* to whose account the issue is assigned; None if there is none, or the issue is not open."""
    assignees = {login.casefold() for login in issue.assignees} if issue.state == "open" else set()
    return next((member for member in team if member.account and member.account.casefold() in assignees), None)


def why_asked(plan: Plan, issue: Issue, assignment: Assignment, standing: StandingApproval | None) -> str:
    """Why a person is asked to approve this issue anyway; empty if the assignment is the approval."""
    if standing is None or not standing.assignment:
        return "nobody approved that assignments approve"
    policy, node = plan.policy, plan.nodes[0]
    author, gates = policy.author_of(node), policy.gates_of(node)
    reasons = (
        (policy.digest != standing.policy.digest, "its settings are not those that were approved for the team"),
        (not assignment.by, "the forge does not say who assigned it"),
        (not assignment.by_writer, f"{assignment.by} has no write access, or is an agent"),
        (not issue.trusted, f"its text is by {issue.author}, who has no write access"),
        (OWN_COMMENT in issue.body, "this program wrote it, with what an agent said"),
        (bool(node.open_questions), "it leaves questions open"),
        (gates is not None and gates.approval is not None, "the gate “approval” guards it"),
        (author != assignment.member, f"{author.known_as} works on tasks of type {node.type}"),
    )
    return next((why for applies, why in reasons if applies), "")
