"""What a person wants to see of a repository: issues, loops, open questions. Reads only; takes no lock (R3)."""

from __future__ import annotations

from dataclasses import dataclass

from irontree.app import App
from irontree.domain.halt import halt_of
from irontree.domain.state import TaskState
from irontree.services.loop import Loop, read_loops
from irontree.services.world import World, read_world


@dataclass(frozen=True, slots=True)
class IssueRow:
    """One issue in a listing. `attempts` is `a / total`; `waits_for` are task keys; `asks` the open halt reason."""

    number: int
    task_key: str
    title: str
    parent: str | None
    depth: int
    phase: str
    stage: str
    attempts: str
    code_ref: str | None
    waits_for: tuple[str, ...]
    asks: str | None
    problem: str | None
    undelivered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One loop in a listing."""

    loop_id: str
    status: str
    halt_reason: str | None
    halt_at: str | None
    done: int
    total: int
    budget_used: int
    budget: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A repository at a glance. `busy` names the driver that lives now."""

    issues: tuple[IssueRow, ...]
    loops: tuple[LoopRow, ...]
    problems: tuple[str, ...]
    busy: str | None


def overview(app: App) -> Overview:
    """Everything at a glance, in tree order."""
    world = read_world(app)
    loops, damaged = read_loops(app)
    holder = app.driver.holder()
    return Overview(
        issues=tuple(_row(app, world, state) for state in tree_order(world)),
        loops=tuple(_loop_row(loop, world) for loop in loops),
        problems=(*(f"{problem.path}: {problem.what}" for problem in world.problems), *damaged),
        busy=f"{holder.what} (process {holder.pid} on {holder.host}, since {holder.since})" if holder else None,
    )


def tree_order(world: World) -> tuple[TaskState, ...]:
    """Parents before their children, siblings by issue number."""
    ordered: list[TaskState] = []
    stack = sorted(_roots(world), key=lambda state: -state.issue_number)
    while stack:
        state = stack.pop()
        ordered.append(state)
        children = [world.states[key] for key in world.children.get(state.task_key, ()) if key in world.states]
        stack.extend(sorted(children, key=lambda child: -child.issue_number))
    return tuple(ordered)


def title_of(world: World, task_key: str) -> str:
    """The approved title; the key itself where no plan lists it."""
    node = world.nodes.get(task_key)
    return node.title if node else task_key


def waits_for(world: World, task_key: str) -> tuple[str, ...]:
    """Keys that must be done first: dependencies of a task, children of a container."""
    node = world.nodes.get(task_key)
    if node is None:
        return ()
    needed = world.children.get(task_key, ()) if node.executability == "container" else node.depends_on
    return tuple(key for key in needed if not (key in world.states and world.states[key].done))


def _roots(world: World) -> list[TaskState]:
    return [state for state in world.states.values() if _parent(world, state.task_key) not in world.states]


def _parent(world: World, task_key: str) -> str | None:
    node = world.nodes.get(task_key)
    return node.parent if node else None


def _depth(world: World, task_key: str) -> int:
    depth, parent = 0, _parent(world, task_key)
    while parent and parent in world.states:
        depth, parent = depth + 1, _parent(world, parent)
    return depth


def _row(app: App, world: World, state: TaskState) -> IssueRow:
    rule = halt_of(state)
    return IssueRow(
        number=state.issue_number,
        task_key=state.task_key,
        title=title_of(world, state.task_key),
        parent=_parent(world, state.task_key),
        depth=_depth(world, state.task_key),
        phase=state.phase.value,
        stage=state.current_stage,
        attempts=f"{state.attempt_count} / {state.total_attempts}" if state.runs_started else "",
        code_ref=state.code_ref,
        waits_for=() if state.done else waits_for(world, state.task_key),
        asks=rule.reason if rule else None,
        problem=state.problem or state.blocking_check,
        undelivered=app.deliveries.load(state.issue_number).failures,
    )


def _loop_row(loop: Loop, world: World) -> LoopRow:
    entity = loop.entity
    return LoopRow(
        loop_id=entity.loop_id,
        status=entity.status,
        halt_reason=entity.halt_reason,
        halt_at=entity.halt_at_task_key,
        done=sum(1 for key in loop.keys if key in world.states and world.states[key].done),
        total=len(loop.keys),
        budget_used=entity.budget_used,
        budget=entity.budget_max_transitions,
    )
