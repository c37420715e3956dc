"""A person's word for a document puts it into force, whole, and safe to repeat after a crash at any point (R7, R17)."""

from __future__ import annotations

from typing import Final

from irontree.app import App
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import EnvironmentRefused, LogDamaged, Refused, RemoteFailed
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.gates import require_no_gate
from irontree.services.loops.loop import Loop
from irontree.services.loops.loop_choice import loop_for, replace_open, require_at_rest
from irontree.services.planning.adopt import approval_name, approve_adopted, issue_now
from irontree.services.planning.approve import (
    Choices,
    Proposal,
    approve,
    go_on,
    planned,
    propose_again,
    release_approved,
    require_as_shown,
    ways_to_approve,
    with_choices,
)
from irontree.services.planning.leave import leave_choice
from irontree.services.planning.publish import Published, publish
from irontree.services.world import read_world

UNREADABLE: Final = (Refused, EnvironmentRefused, RemoteFailed, LogDamaged)
"""What keeps anybody from saying what would be approved now: document, settings, forge or plans cannot be read."""


def authorise(app: App, proposal: Proposal, revision: str, by: str) -> Loop:
    """Write the plan, publish its nodes, start its loop: the one approval names all three (protocol, invariants).

    The caller holds the driver lock. Raises ApprovalRefused for another revision than the proposal's, and where it
    would not do what was shown any more, and in a form for what has a gate; Busy while a loop over other tasks of the
    document is at work.
    """
    require_as_shown(app, proposal)
    if not proposal.approved:
        require_no_gate(app, _approved_before(app, proposal))
    _require_at_rest(app, proposal)
    plan = approve(app, proposal, revision, by)
    intent = proposal.intent or proposal.spec_path
    _put_in_force(app, plan, by, intent, proposal.loop_id)
    loop = loop_for(app, plan, intent, proposal.loop_id)
    app.repository.back_up()
    return loop


def authorise_stepwise(app: App, proposal: Proposal, revision: str, by: str) -> Published:
    """Write the plan and publish its nodes; no loop goes on over other tasks.

    The caller holds the driver lock. Raises ApprovalRefused as `authorise` does, and Busy while any loop of the
    document is at work: none of it would be approved for a loop any more.
    """
    require_as_shown(app, proposal)
    require_at_rest(app, proposal.spec_path, ())
    plan = approve(app, proposal, revision, by, loop_mode=False)
    published = _put_in_force(app, plan, by)
    app.repository.back_up()
    return published


def approve_again(app: App, issue_number: int, revision: str, by: str, choices: Choices | None = None) -> TaskState:
    """Answer `reapproval_required`: approve what the document and the configuration say now (ruling R7).

    An unchanged task goes on from where it was; a changed one begins a fresh stream; one that is no longer in the
    document is cancelled, and its state stays what it is. An open loop over other tasks of the document is replaced.
    An adopted issue is approved as it says now. *revision* is what the form showed: with its stamp it names all that
    approving would do, which is compared here, under the lock. Raises as `authorise` does.
    """
    plan = _plan_now(app, issue_number)
    if plan.adoption:
        return approve_adopted(app, plan, revision, by)
    proposal = with_choices(propose_again(app, plan), choices or Choices())
    proposal.require_named(revision)
    _require_at_rest(app, proposal)
    plan = approve(app, proposal, revision, by, loop_mode=plan.loop_mode)
    _put_in_force(app, plan, by)
    world = read_world(app)
    now = world.state(issue_number)
    waits = now.phase in (Phase.STALE, Phase.ADOPTED) and now.task_key not in world.cancelled
    return go_on(app, now, by) if waits else now


def special_choices(app: App, reason: str, task_key: str | None) -> tuple[str, ...]:
    """The special answers (`domain/halt.py`) that make a difference to the question about this task now."""
    world = read_world(app)
    plan = world.plans.get(task_key or "")
    if plan is None:
        return ()
    if reason != "reapproval_required":
        state = world.states.get(task_key or "")
        return leave_choice(app, world, state) if state else ()
    if plan.adoption:
        return ()
    try:
        return tuple(ways_to_approve(propose_again(app, plan)))
    except UNREADABLE:  # the form says what is wrong with the document
        return ()


def name_to_approve(app: App, plan: Plan) -> str:
    """What approving again names, as the document or the adopted issue and the settings are now."""
    return approval_name(issue_now(app, plan)) if plan.adoption else propose_again(app, plan).shown_name


def _approved_before(app: App, proposal: Proposal) -> set[str]:
    """The tasks that this would approve again: those of the document as it was, and those it names now."""
    world = read_world(app)
    earlier = {key for key, plan in world.plans.items() if plan.spec_path == proposal.spec_path and not plan.adoption}
    return earlier | {node.task_key for node in planned(proposal)}


def _require_at_rest(app: App, proposal: Proposal) -> None:
    require_at_rest(app, proposal.spec_path, [node.task_key for node in planned(proposal)])


def _put_in_force(app: App, plan: Plan, by: str, intent: str = "", loop_id: str = "") -> Published:
    """Make its issues, once nothing is at work on them, and let what waited for it go on.

    The loop first: a plan that is not published whole is taken up again (`catch_up`), in the loop that has all of it.
    """
    settle_leftovers(app)
    replace_open(app, plan, intent, loop_id)
    published = publish(app, plan)
    release_approved(app, by)
    return published


def _plan_now(app: App, issue_number: int) -> Plan:
    """The plan in force for that issue; raises NotEligible where it was cancelled or no plan lists it."""
    world = read_world(app)
    state = world.state(issue_number)
    world.require_wanted(state)
    return world.plan(state)
