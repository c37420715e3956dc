"""Approvals by the name that was shown, and the first step of one alone: the plan is written, and no more."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import Plan
from irontree.services.answers.approve import approve, write_plans
from irontree.services.loops.loop import Loop
from irontree.services.proposals.proposal import Proposal


def write_plan(app: App, proposal: Proposal, revision: str, by: str, *, loop_mode: bool = True) -> Plan:
    """The approved plan."""
    [plan] = write_plans(app, proposal, revision, by, loop_mode=loop_mode)
    return plan


def approve_as_shown(app: App, proposal: Proposal, by: str) -> Loop:
    """The loop of what was shown."""
    return approve(app, proposal, proposal.name, by)
