"""The loop entity and its log: start, spend, halt, resume, extend, skip, cancel, complete (protocol, Loop Mode).

Loop events win over the entity file; the entity is rewritten from them, `budget_used` excepted (ruling R17).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from irontree.app import App
from irontree.domain.decide import Decision, Halt, Scope, decide
from irontree.domain.graph import Graph
from irontree.domain.ids import intent_hash
from irontree.domain.ids import loop_id as new_loop_id
from irontree.domain.loop import OPEN, TRANSITIONS_KEPT, LoopEntity, Transition
from irontree.domain.loop_events import (
    LoopBudgetExtended,
    LoopCancelled,
    LoopCompleted,
    LoopEvent,
    LoopHalted,
    LoopResumed,
    LoopStarted,
)
from irontree.domain.plan import Plan
from irontree.errors import Busy, LogDamaged, NotEligible
from irontree.services.world import World, read_world

NOTHING_LEFT: Final = "every task in scope was skipped"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop as its events say it is."""

    entity: LoopEntity
    sequence: int
    cancelled: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """Its loop id."""
        return self.entity.loop_id

    @property
    def is_open(self) -> bool:
        """Whether it may still go on."""
        return self.entity.status in OPEN

    @property
    def keys(self) -> tuple[str, ...]:
        """The frozen set minus what was cancelled (ruling R17)."""
        return tuple(key for key in self.entity.task_keys if key not in self.cancelled)

    @property
    def budget_left(self) -> int:
        """Transitions that may still be taken."""
        return self.entity.budget_max_transitions - self.entity.budget_used


def start(app: App, entity: LoopEntity, intent_hash: str) -> Loop:
    """Record a new loop; the event first, then the entity file."""
    event = LoopStarted(
        loop_id=entity.loop_id,
        sequence=1,
        goal_kind=entity.goal_kind,
        task_keys=entity.task_keys,
        budget_max_transitions=entity.budget_max_transitions,
        intent_hash=intent_hash,
    )
    words = {"intent": entity.intent, "resolved_query": entity.resolved_query}
    app.loops.append(event, expected_sequence=0, meta=app.origin.meta() | words)
    app.loops.write_entity(entity)
    return Loop(entity, 1)


def loop_for(app: App, plan: Plan, intent: str) -> Loop:
    """The open loop over exactly the tasks of *plan*; a new one if there is none (its approval named Loop Mode).

    One that has completed all of them counts as well: asking twice is no new work. An open loop that the same
    document had over other tasks is cancelled: what was approved last is what runs.
    """
    keys = tuple(node.task_key for node in plan.nodes)
    world = read_world(app)
    finished = all(world.is_done(key) for key in keys)
    fitting = (*OPEN, "completed") if finished else OPEN
    known = (found for found in reversed(read_loops(app)[0]) if found.entity.status in fitting)
    found = next((found for found in known if set(found.entity.task_keys) == set(keys)), None)
    loop = found or _new_loop(app, plan, intent, keys)
    _cancel_replaced(app, plan)  # last: as long as one of them is open, an approval that is cut short can be finished
    return loop


def _new_loop(app: App, plan: Plan, intent: str, keys: tuple[str, ...]) -> Loop:
    entity = LoopEntity(
        loop_id=new_loop_id(app.clock.now(), secrets.token_hex(3)),
        created_at=app.stamp(),
        goal_kind="set_done",
        intent=intent,
        resolved_query=plan.spec_path,
        task_keys=keys,
        budget_max_transitions=plan.budget_max_transitions,
    )
    return start(app, entity, intent_hash(intent))


def _cancel_replaced(app: App, plan: Plan) -> None:
    """Cancel the open loops that the document of *plan* had over other tasks."""
    keys = [node.task_key for node in plan.nodes]
    for found in read_loops(app)[0]:
        if _is_replaced(found, plan.spec_path, keys):
            cancel(app, found.id, plan.approval.by, reason=f"revision {plan.spec_revision} has other tasks")


def replace_open(app: App, plan: Plan) -> None:
    """Put a loop over the tasks of *plan* in the place of an open one that its document has over others.

    Only cancels that one if the approval did not name Loop Mode (ruling R17).
    """
    if plan.loop_mode and open_loop_of(app, plan.spec_path):
        loop_for(app, plan, plan.spec_path)
    else:
        _cancel_replaced(app, plan)


def open_loop_of(app: App, spec_path: str) -> Loop | None:
    """The newest open loop over that document."""
    of_document = (found for found in reversed(read_loops(app)[0]) if found.entity.resolved_query == spec_path)
    return next((found for found in of_document if found.is_open), None)


def replacement(app: App, loop_id: str) -> Loop | None:
    """The open loop that an approval of other tasks put in the place of this one, which it cancelled."""
    entity = read_loop(app, loop_id).entity
    return open_loop_of(app, entity.resolved_query) if entity.status == "cancelled" else None


def require_at_rest(app: App, spec_path: str, keys: Collection[str]) -> None:
    """Raise Busy while a loop is at work that an approval of *spec_path* with these tasks would replace.

    An active loop is never taken over (protocol, Loop lease); one that has halted is replaced by `loop_for`.
    """
    active = app.lease.holder()
    at_work = (found for found in read_loops(app)[0] if active and found.id == active.what)
    for found in at_work:
        if _is_replaced(found, spec_path, keys):
            raise Busy(
                f"loop {found.id} is at work on {spec_path}",
                remedy=f"wait until it halts, or cancel it: `irontree task resume {found.id} cancel`",
            )


def _is_replaced(loop: Loop, spec_path: str, keys: Collection[str]) -> bool:
    """Whether this open loop of the same document is over other tasks than *keys*."""
    entity = loop.entity
    return loop.is_open and entity.resolved_query == spec_path and set(entity.task_keys) != set(keys)


def read_loop(app: App, loop_id: str) -> Loop:
    """The loop as its events say; raises NotEligible if there is none."""
    records = app.loops.read(loop_id).records
    if not records:
        raise NotEligible(f"Loop {loop_id} not found.", remedy="`irontree loops` lists them")
    entity = app.loops.read_entity(loop_id)
    loop = Loop(entity or _entity_from(records[0].event, records[0].meta), 0)
    for record in records:
        loop = _fold(loop, record.event, record.meta)
    return loop


def read_loops(app: App) -> tuple[tuple[Loop, ...], tuple[str, ...]]:
    """All loops that can be read, oldest first, and what is wrong with the files of any."""
    loops: list[Loop] = []
    problems: list[str] = []
    for loop_id in app.loops.ids():
        problems += [f"{problem.path}: {problem.what}" for problem in app.loops.read(loop_id).problems]
        try:
            loops.append(read_loop(app, loop_id))
        except (NotEligible, LogDamaged) as error:
            problems.append(error.message)
    return tuple(loops), tuple(problems)


def open_loops(app: App) -> tuple[Loop, ...]:
    """Loops that have not ended, oldest first."""
    return still_open(read_loops(app)[0])


def still_open(loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """Those of *loops* that have not ended."""
    return tuple(loop for loop in loops if loop.is_open)


def loop_of(loops: Sequence[Loop], task_key: str) -> str | None:
    """The newest of these open loops that has this task in scope."""
    return next((loop.id for loop in reversed(loops) if task_key in loop.keys), None)


def next_decision(app: App, loop_id: str) -> Decision:
    """What this loop should do next, by the log as it is now."""
    loop = read_loop(app, loop_id)
    return decide(scope_of(loop, read_world(app)))


def scope_of(loop: Loop, world: World) -> Scope:
    """What the loop may touch."""
    return world.scope(loop.keys, loop.budget_left)


def spend(app: App, loop_id: str, task_key: str, skill: str) -> None:
    """Count one transition, durably, before it is taken (ruling R12)."""

    def counted(entity: LoopEntity) -> LoopEntity:
        taken = Transition(iso=app.stamp(), task_key=task_key, skill=skill, outcome="started")
        transitions = (*entity.transitions, taken)[-TRANSITIONS_KEPT:]
        return entity.model_copy(update={"budget_used": entity.budget_used + 1, "transitions": transitions})

    _change(app, loop_id, counted)


def settle(app: App, loop_id: str, outcome: str) -> None:
    """Write the outcome of the last transition into the entity's log."""

    def settled(entity: LoopEntity) -> LoopEntity:
        if not entity.transitions:
            return entity
        last = entity.transitions[-1].model_copy(update={"outcome": outcome})
        return entity.model_copy(update={"transitions": (*entity.transitions[:-1], last)})

    _change(app, loop_id, settled)


def halt(app: App, loop_id: str, reason: Halt) -> Loop:
    """Record that the loop stopped for a person; nothing if it has halted already. One without tasks is cancelled."""
    loop = read_loop(app, loop_id)
    if not loop.keys and loop.is_open:  # a skip was cut short behind its last task
        return cancel(app, loop_id, app.origin.actor, reason=NOTHING_LEFT)
    if loop.entity.status != "running":
        return loop
    used = loop.entity.budget_used
    event = LoopHalted(
        **_next(loop), halt_reason=reason.reason, halt_at_task_key=reason.task_key, transitions_used=used
    )
    return _record(app, loop, event, {"detail": reason.detail} if reason.detail else {})


def resume(app: App, loop_id: str) -> Loop:
    """Record that the loop goes on; nothing if it is running. Raises NotEligible if it has ended."""
    loop = read_loop(app, loop_id)
    entity = loop.entity
    if entity.status == "running":
        return loop
    if entity.status != "halted" or entity.halt_reason is None:
        raise NotEligible(f"Loop {loop_id} status is {entity.status}; only halted loops can be resumed.")
    event = LoopResumed(**_next(loop), previous_halt_reason=entity.halt_reason, transitions_used=entity.budget_used)
    return _record(app, loop, event, {})


def complete(app: App, loop_id: str) -> Loop:
    """Record that everything in scope is done. Raises NotEligible for a loop that was cancelled."""
    loop = read_loop(app, loop_id)
    if loop.entity.status == "completed":
        return loop
    require_open(loop)
    event = LoopCompleted(**_next(loop), completed_at=app.stamp(), transitions_used=loop.entity.budget_used)
    return _record(app, loop, event, {})


def extend(app: App, loop_id: str, extra: int, by: str) -> Loop:
    """Allow *extra* more transitions (added event, ruling R13)."""
    loop = require_open(read_loop(app, loop_id))
    total = loop.entity.budget_max_transitions + extra
    event = LoopBudgetExtended(**_next(loop), extra_transitions=extra, budget_max_transitions=total, by=by)
    return _record(app, loop, event, {})


def skip(app: App, loop_id: str, task_key: str, by: str) -> tuple[str, ...]:
    """Cancel the task in this loop with all that depends on it; the keys that were cancelled, in order.

    The task itself comes last: cut short, the question about it is still open, and the same answer ends the work.
    A loop that has nothing left then is cancelled.
    """
    loop = require_open(read_loop(app, loop_id))
    if task_key not in loop.keys:
        raise NotEligible(f"{task_key} is not in the scope of loop {loop_id}", remedy=f"`irontree loops {loop_id}`")
    cancelled = cascade(loop, read_world(app), task_key)
    for key in sorted(cancelled, key=lambda key: key == task_key):
        event = LoopCancelled(**_next(loop), cancelled_at=app.stamp(), cancellation_scope="task", task_key=key)
        loop = _record(app, loop, event, {"by": by})
    if not loop.keys:
        cancel(app, loop_id, by, reason=NOTHING_LEFT)
    return cancelled


def cascade(loop: Loop, world: World, task_key: str) -> tuple[str, ...]:
    """What skipping *task_key* cancels: it, its dependents and composite ancestors (ruling R17)."""
    graph = Graph.of(world.nodes[key] for key in loop.keys if key in world.nodes)
    affected = graph.cascade(task_key)
    return tuple(key for key in loop.keys if key in affected and not world.is_done(key))


def cancel(app: App, loop_id: str, by: str, *, reason: str = "") -> Loop:
    """End the loop for good; its issues keep their state."""
    loop = require_open(read_loop(app, loop_id))
    event = LoopCancelled(**_next(loop), cancelled_at=app.stamp(), cancellation_scope="loop")
    return _record(app, loop, event, {"by": by, "reason": reason} if reason else {"by": by})


def require_open(loop: Loop) -> Loop:
    """The loop itself; raises NotEligible if it has ended."""
    if not loop.is_open:
        raise NotEligible(f"Loop {loop.id} is {loop.entity.status}", remedy="start a new one: `irontree task SPEC.md`")
    return loop


def _change(app: App, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
    """Change the entity file; one that a crash kept from being written is made from the events first."""
    if app.loops.read_entity(loop_id) is None:
        app.loops.write_entity(read_loop(app, loop_id).entity)
    return app.loops.change_entity(loop_id, change)


def _next(loop: Loop) -> dict[str, Any]:
    return {"loop_id": loop.id, "sequence": loop.sequence + 1}


def _record(app: App, loop: Loop, event: LoopEvent, meta: dict[str, Any]) -> Loop:
    written = app.loops.append(event, expected_sequence=loop.sequence, meta=app.origin.meta() | meta)
    after = _fold(loop, written.event, written.meta)
    status = after.entity.model_dump(include={*_STATUS_KEYS})
    entity = _change(app, loop.id, lambda known: known.model_copy(update=status))
    return replace(after, entity=entity)


_STATUS_KEYS = ("status", "halt_reason", "halt_at_task_key", "halt_at_iso", "budget_max_transitions", "completed_at")
_RUNNING = {"status": "running", "halt_reason": None, "halt_at_task_key": None, "halt_at_iso": None}


def _fold(loop: Loop, event: LoopEvent, meta: dict[str, Any]) -> Loop:
    """The loop after one more of its events."""
    cancelled = loop.cancelled
    if isinstance(event, LoopCancelled) and event.cancellation_scope == "task" and event.task_key:
        cancelled |= {event.task_key}
    used = max(loop.entity.budget_used, getattr(event, "transitions_used", 0))  # the file may have been lost
    entity = loop.entity.model_copy(update=_entity_change(event, meta) | {"budget_used": used})
    return Loop(entity, event.sequence, cancelled)


def _entity_change(event: LoopEvent, meta: dict[str, Any]) -> dict[str, Any]:
    match event:
        case LoopStarted():
            return {**_RUNNING, "budget_max_transitions": event.budget_max_transitions, "task_keys": event.task_keys}
        case LoopResumed():
            return dict(_RUNNING)
        case LoopHalted():
            return {
                "status": "halted",
                "halt_reason": event.halt_reason,
                "halt_at_task_key": event.halt_at_task_key,
                "halt_at_iso": meta.get("time"),
            }
        case LoopBudgetExtended():
            return {"budget_max_transitions": event.budget_max_transitions}
        case LoopCompleted():
            return {"status": "completed", "completed_at": event.completed_at}
        case LoopCancelled() if event.cancellation_scope == "loop":
            return {"status": "cancelled"}
        case _:
            return {}


def _entity_from(event: LoopEvent, meta: dict[str, Any]) -> LoopEntity:
    """An entity whose file was lost, from its first event; later ones say what it had used when they were written."""
    if not isinstance(event, LoopStarted):
        raise NotEligible(f"Loop {event.loop_id} does not begin with loop_started", remedy="restore .mino/loops")
    return LoopEntity(
        loop_id=event.loop_id,
        created_at=str(meta.get("time", "")),
        goal_kind=event.goal_kind,
        intent=str(meta.get("intent", "")),
        resolved_query=str(meta.get("resolved_query", "")),
        task_keys=event.task_keys,
        budget_max_transitions=event.budget_max_transitions,
    )
