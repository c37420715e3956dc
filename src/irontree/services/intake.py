"""Approval, publication and authorisation of the loop in one go, safe to repeat after a crash at any point."""

from __future__ import annotations

from irontree.app import App
from irontree.services.approve import Proposal, approve, release_approved
from irontree.services.loop import Loop, loop_for, require_at_rest
from irontree.services.publish import publish
from irontree.services.recovery import settle_leftovers


def authorise(app: App, proposal: Proposal, revision: str, by: str) -> Loop:
    """Write the plan, publish its nodes, start its loop: the one approval names all three (protocol, invariants).

    The caller holds the driver lock. Raises ApprovalRefused for another revision than the proposal's, and Busy while
    a loop over other tasks of the document is at work.
    """
    require_at_rest(app, proposal.spec_path, [node.task_key for node in proposal.requirements.nodes])
    plan = approve(app, proposal, revision, by)
    settle_leftovers(app)
    publish(app, plan)
    release_approved(app, by)
    loop = loop_for(app, plan, proposal.spec_path)
    app.repository.back_up()
    return loop
