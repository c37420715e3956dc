"""What only comments on its issue approve, because of the gate of approvals (R20, decision 0013)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irontree.app import App
from irontree.domain.gates import Gate, judge
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import ApprovalRefused
from irontree.services.proposals.adoption import approval_name
from irontree.services.proposals.proposal import DraftTask, Proposal
from irontree.services.record import World, is_approved_for, read_world
from irontree.services.work.preflight import is_changed


@dataclass(frozen=True, slots=True)
class Guarded:
    """A task that waits behind a gate of approvals: its issue, the gate, and how it is approved."""

    number: int
    gate: Gate
    remedy: str


def guarded(app: App, world: World, proposal: Proposal) -> tuple[Guarded, ...]:
    """The tasks that *proposal* would approve and that have such a gate.

    The gate of the plan in force counts, and that of today's settings for an issue that has no plan yet. A task of a
    document has one if its issue would ask for the approval: it is open, and its text or settings are not those that
    were approved. A new task has none, since there is no issue to comment on.
    """
    if proposal.approved:
        return ()
    return tuple(_in_document(app, world, proposal) if proposal.draft.whole else _of_issues(app, world, proposal))


def require_unguarded(app: App, proposal: Proposal) -> None:
    """Raise ApprovalRefused if a gate guards any of this: terminals and forms do not know who approves there."""
    found = guarded(app, read_world(app), proposal)
    closed = [each for each in found if judge(each.gate) != "passed"]
    if closed:
        numbers = ", ".join(f"#{each.number}" for each in closed)
        raise ApprovalRefused(
            f"the gate “approval” counts only comments on the issue ({numbers}): {closed[0].gate.decide} there, and "
            "this form or command does not know who you are",
            remedy="; ".join(each.remedy for each in closed),
        )


def _of_issues(app: App, world: World, proposal: Proposal) -> Iterator[Guarded]:
    for task in proposal.due:
        if gate := gate_of_issue(world, task.plan):
            yield Guarded(task.number, gate, _how(app, task, world.states.get(task.node.task_key)))


def gate_of_issue(world: World, plan: Plan) -> Gate | None:
    """The gate that approving the issue of *plan* has to pass; None if there is none."""
    key = plan.nodes[0].task_key
    return _gate(world.plans.get(key, plan), key)


def _how(app: App, task: DraftTask, state: TaskState | None) -> str:
    number = task.number
    if state and state.phase in (Phase.ADOPTED, Phase.STALE):
        return f"comment `/approve {approval_name(task.plan)}` on issue #{number}"
    same_text = state is not None and is_approved_for(app, state, task.plan)
    ask = f"irontree run issue-{number}" if same_text else f"irontree task adopt issue-{number}"
    return f"`{ask}` has issue #{number} ask; then comment there"


def _in_document(app: App, world: World, proposal: Proposal) -> Iterator[Guarded]:
    now = {node.task_key: node for node in proposal.nodes}
    for key, plan in world.plans.items():
        state, node = world.states.get(key), now.get(key)
        if plan.spec_path != proposal.what or state is None or state.done or key in world.cancelled:
            continue
        same = node is not None and plan.policy == proposal.draft.policy and not is_changed(app, node, state)
        gate = None if same or world.nodes[key].executability != "executable" else _gate(plan, key)
        if gate:
            yield Guarded(state.issue_number, gate, _how_in_document(state, proposal))


def _how_in_document(state: TaskState, proposal: Proposal) -> str:
    number = state.issue_number
    if state.phase is Phase.STALE:
        return f"comment `/approve {proposal.name}` on issue #{number}"
    return f"comment on issue #{number} once its loop or `irontree run issue-{number}` has asked there"


def _gate(plan: Plan, key: str) -> Gate | None:
    gates = plan.policy.gates_of(plan.node(key))
    return gates.approval if gates else None
