"""Tasks that wait for an approval again: what their form offers and names, and what lets them go on (ruling R7)."""

from __future__ import annotations

from typing import Final

from irontree.app import App
from irontree.domain.events import TaskApproved
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import EnvironmentRefused, LogDamaged, Refused, RemoteFailed
from irontree.services.proposals.documents import DocumentSource
from irontree.services.proposals.issues import AdoptedSource
from irontree.services.proposals.permissions import permission_choice
from irontree.services.proposals.proposal import Proposal, propose_from, ways_to_approve
from irontree.services.record.record import record, snapshot
from irontree.services.record.world import World, read_world
from irontree.services.work.staleness import is_as_approved

# --- What approving again would mean


UNREADABLE: Final = (Refused, EnvironmentRefused, RemoteFailed, LogDamaged)
"""What keeps anybody from saying what would be approved now: document, settings, forge or plans cannot be read."""


def propose_again(app: App, plan: Plan) -> Proposal:
    """What approving again would mean, for the document or the adopted issue as it is now.

    Where the document is not there, for the text in the plan. Raises as `propose` does, and ApprovalRefused for an
    issue that cannot be approved.
    """
    if plan.adoption:
        return propose_from(app, AdoptedSource(plan), "", again=True)
    return propose_from(app, DocumentSource(plan.spec_path, plan.loop_mode, plan.source), "", again=True)


def special_choices(app: App, reason: str, task_key: str | None) -> tuple[str, ...]:
    """The special answers (`domain/halt.py`) that make a difference to the question about this task now."""
    world = read_world(app)
    plan = world.plans.get(task_key or "")
    if plan is None:
        return ()
    if reason != "reapproval_required":
        state = world.states.get(task_key or "")
        return permission_choice(app, world, state) if state else ()
    if plan.adoption:
        return ()
    try:
        return tuple(ways_to_approve(propose_again(app, plan)))
    except UNREADABLE:  # the form says what is wrong with the document
        return ()


def name_to_approve(app: App, plan: Plan) -> str:
    """What approving again names, as the document or the adopted issue and the settings are now."""
    return propose_again(app, plan).shown_name


# --- What lets them go on


def approve_reverted(app: App) -> tuple[int, ...]:
    """Let tasks go on whose text and configuration are what was approved again; the issues it did so for (R7)."""
    return release_approved(app, by="irontree", channel="reverted")


def release_approved(app: App, by: str, channel: str | None = None) -> tuple[int, ...]:
    """Let every task go on that waits for an approval it has by now; the issues it did so for.

    Not one whose own text was approved anew: it begins a fresh stream, and if that was cut short it is asked again.
    """
    world = read_world(app)
    states = [s for s in world.states.values() if not s.problem and s.task_key in world.plans.keys() - world.cancelled]
    adopted = [state for state in states if state.phase is Phase.ADOPTED and _has_approval(world, state)]
    for state in adopted:
        approval = world.plan(state).approval
        go_on(app, state, approval.by if approval else by, approval.channel if approval else channel)
    back = [state for state in states if state.phase is Phase.STALE and is_as_approved(app, world, state)]
    for state in back:
        go_on(app, state, by, channel)
    return tuple(state.issue_number for state in (*adopted, *back))


def _has_approval(world: World, state: TaskState) -> bool:
    plan = world.plan(state)
    return plan.approval is not None and plan.spec_revision == state.approved_revision


def go_on(app: App, state: TaskState, by: str, channel: str | None = None) -> TaskState:
    """Record the approval that this task waited for; it is again what it was before."""
    restored = snapshot(state.before or state)
    return record(app, state, TaskApproved, **restored, by=by, channel=channel or app.origin.channel)
