"""Every node of an approved plan becomes an issue, exactly once (protocol, phase 2; rulings R7, R8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from irontree.app import App
from irontree.domain.events import TaskPublished, TaskReapprovalRequired
from irontree.domain.graph import Graph
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.ports import DeliveryCursor, Issue
from irontree.services.brief import write_brief
from irontree.services.deliver import deliver
from irontree.services.issue_text import issue_body, key_marker
from irontree.services.record import record
from irontree.services.world import read_world

Status = Literal["created", "found", "kept", "renewed"]


def publish(app: App, plan: Plan) -> tuple[tuple[PlanNode, int, Status], ...]:
    """Make an issue and a stream for each node that has none, in dependency order; what became of each.

    Safe to call again at any time: an event that exists is not written again, an issue that exists is found by
    its key. A task whose own text changed and that is not done begins a fresh stream. The caller holds the
    driver lock.
    """
    published: list[tuple[PlanNode, int, Status]] = []
    world = read_world(app)
    numbers = {key: state.issue_number for key, state in world.states.items()}
    for node in publication_order(plan):
        state = world.states.get(node.task_key)
        if state is None:
            number, status = _publish_node(app, plan, node, numbers)
        elif _is_renewed(app, node, state):
            number, status = _renew(app, plan, node, state, numbers)
        else:
            number, status = state.issue_number, "kept"
        numbers[node.task_key] = number
        app.repository.mark_history()
        deliver(app, number)
        published.append((node, number, status))
    world = read_world(app)
    for _, number, _ in published:
        write_brief(app, world, world.state(number))
    return tuple(published)


def publication_order(plan: Plan) -> tuple[PlanNode, ...]:
    """Dependency order with every parent before its children, so that each body can name the numbers it needs.

    Among tasks that nothing orders, priority does, then the document: a lower number is also worked on first (R11).
    """
    by_key = {node.task_key: node for node in plan.nodes}
    ordered: dict[str, PlanNode] = {}
    for key in Graph.of(plan.nodes).order:
        chain = [by_key[key]]
        while chain[-1].parent in by_key and chain[-1].parent not in ordered:
            chain.append(by_key[chain[-1].parent])
        for node in reversed(chain):
            ordered.setdefault(node.task_key, node)
    return tuple(ordered.values())


def _publish_node(app: App, plan: Plan, node: PlanNode, numbers: Mapping[str, int]) -> tuple[int, Status]:
    found, body = _own_issue(app, node), issue_body(app, plan, node, numbers)
    if found and (found.title, found.body) != (node.title, body):
        app.forge().edit_issue(found.number, title=node.title, body=body)
    issue = found or app.forge().create_issue(node.title, body, _type_labels(node))
    _first_event(app, plan, node, issue.number)
    app.progress.note(f"#{issue.number} {node.title}")
    return issue.number, "found" if found else "created"


def _own_issue(app: App, node: PlanNode) -> Issue | None:
    """The issue that carries our key; only one that we or somebody with write access wrote counts (R8)."""
    trusted = [issue for issue in app.forge().find_issues(key_marker(node.task_key)) if issue.trusted]
    if len(trusted) > 1:
        numbers = ", ".join(f"#{issue.number}" for issue in trusted)
        app.progress.note(f"warning: {numbers} all carry the key {node.task_key}; the lowest counts")
    return trusted[0] if trusted else None


def _first_event(app: App, plan: Plan, node: PlanNode, number: int, meta: dict[str, str] | None = None) -> None:
    container = node.executability == "container"
    event = TaskPublished(
        task_key=node.task_key,
        issue_number=number,
        spec_revision=plan.spec_revision,
        approved_revision=plan.spec_revision,
        sequence=1,
        next_stage="decompose" if container else "run",
        workflow_entry_state="needs_breakdown" if container else "ready_to_start",
        attempt_count=0,
        max_retry_count=plan.policy.max_retry_count,
    )
    app.log.append(event, expected_sequence=0, meta=app.origin.meta() | (meta or {}))


def _is_renewed(app: App, node: PlanNode, state: TaskState) -> bool:
    """Whether the task's own text is not what its stream was approved for (staleness is per node, R7)."""
    if state.done:
        return False
    earlier = app.plans.load(state.approved_revision)
    known = {known.task_key: known.digest for known in earlier.nodes} if earlier else {}
    return known.get(node.task_key, node.digest) != node.digest


def _renew(app: App, plan: Plan, node: PlanNode, state: TaskState, numbers: Mapping[str, int]) -> tuple[int, Status]:
    """End the old stream, move it away by one rename, begin a new one."""
    if state.phase is not Phase.STALE:
        record(app, state, TaskReapprovalRequired, meta={"reason": "its text changed"})
    app.deliveries.save(state.issue_number, DeliveryCursor())  # first: the new stream must not begin behind the old
    archive = app.log.archive(state.issue_number, state.approved_revision)
    app.forge().edit_issue(state.issue_number, title=node.title, body=issue_body(app, plan, node, numbers))
    meta = {"previous_revision": state.approved_revision, "archive_path": archive.name}
    _first_event(app, plan, node, state.issue_number, meta)
    return state.issue_number, "renewed"


def _type_labels(node: PlanNode) -> tuple[str, ...]:
    return ("bug",) if node.type == "bug" else ("enhancement",)
