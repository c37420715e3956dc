"""What the loop over a plan would do if all went well (`task … --what-if`); nothing is written or asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from irontree.app import App
from irontree.domain.decide import Scope
from irontree.domain.forecast import Foreseen, as_published, forecast
from irontree.domain.plan import ExecutionPolicy, PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.domain.verdict import coverage
from irontree.services.loops.deciding import scope_of
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop
from irontree.services.planning.publish import publication_order
from irontree.services.planning.staleness import is_changed
from irontree.services.world import World, read_world


def foresee_plan(app: App, tasks: Sequence[tuple[PlanNode, ExecutionPolicy]], budget: int) -> tuple[Foreseen, ...]:
    """The decisions of a new loop over *tasks*, each approved with these settings, its issue made or taken in."""
    world, nodes = read_world(app), [node for node, _ in tasks]
    judged = {node.task_key for node, policy in tasks if needs_person(node, policy)}
    free = count(1 + max((state.issue_number for state in world.states.values()), default=0))
    approved = {node.task_key: _approved(app, world, node, free) for node in publication_order(nodes)}
    children: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.parent:
            children[node.parent] = (*children.get(node.parent, ()), node.task_key)
    scope = Scope(
        nodes={**world.nodes, **{node.task_key: node for node in nodes}},
        states={**world.states, **approved},
        keys=tuple(node.task_key for node in nodes),
        children={**world.children, **children},
        budget_left=budget,
    )
    return tuple(forecast(scope, judged.__contains__))


def foresee_loop(app: App, loop: Loop) -> tuple[Foreseen, ...]:
    """The decisions of a loop that is there already, from where it is."""
    world = read_world(app)
    scope = scope_of(loop, world, read_funds(app, world))
    return tuple(forecast(scope, lambda key: needs_person(world.nodes[key], world.plans[key].policy)))


def needs_person(node: PlanNode, policy: ExecutionPolicy) -> bool:
    """Whether a criterion is covered by nothing (R18); what detection would find in the workspace is not foreseen."""
    return any(item.by is None for item in coverage(node, policy))


def _approved(app: App, world: World, node: PlanNode, free: count[int]) -> TaskState:
    """Its state once it is approved: as it is if its text did not change, else that of a fresh stream."""
    state = world.states.get(node.task_key)
    if state is None:
        return as_published(node, next(free))
    if not state.done and is_changed(app, node, state):
        return as_published(node, state.issue_number)
    held = state.before if state.phase is Phase.STALE else None
    return replace(held or state, phase=Phase.READY) if state.phase is Phase.ADOPTED else held or state
