"""The loop entity and its log: start, spend, halt, resume, extend, skip, cancel, complete (protocol, Loop Mode).

Loop events win over the entity file, which is rewritten from them, except for `budget_used` (R17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from irontree.app import App
from irontree.domain import typed
from irontree.domain.decide import Halt
from irontree.domain.graph import Graph
from irontree.domain.ids import intent_hash
from irontree.domain.ids import loop_id as new_loop_id
from irontree.domain.loop import (
    OPEN,
    TRANSITIONS_KEPT,
    GoalKind,
    LoopBudgetExtended,
    LoopCancelled,
    LoopCompleted,
    LoopEntity,
    LoopEvent,
    LoopHalted,
    LoopResumed,
    LoopStarted,
    Transition,
    entity_after,
    entity_from,
)
from irontree.domain.meta import Meta
from irontree.domain.plan import canonical_digest
from irontree.domain.spending import Extension, extension_from
from irontree.domain.text import shell_path
from irontree.errors import LogDamaged, NotEligible, in_words
from irontree.ports import EventStream
from irontree.services.record import World, read_world

NOTHING_LEFT: Final = "every task in scope was skipped"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, as its events describe it."""

    entity: LoopEntity
    sequence: int
    cancelled: frozenset[str] = frozenset()
    extensions: tuple[Extension, ...] = ()
    """What agents were allowed to spend beyond their budgets."""
    damage: LogDamaged | None = None
    """Why its log cannot be trusted: nothing is appended to it, and no other loop replaces it."""

    @property
    def id(self) -> str:
        """Its loop id."""
        return self.entity.loop_id

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.entity.status in OPEN

    @property
    def keys(self) -> tuple[str, ...]:
        """The frozen set minus the tasks that were cancelled (R17)."""
        return tuple(key for key in self.entity.task_keys if key not in self.cancelled)

    @property
    def budget_left(self) -> int:
        """The number of transitions left."""
        return self.entity.budget_max_transitions - self.entity.budget_used


def start(
    app: App, loop_id: str, keys: tuple[str, ...], *, intent: str, query: str, budget: int, goal: GoalKind = "set_done"
) -> Loop:
    """Record a new loop: first the event, then the entity file. Raises LogDamaged if an open loop cannot be trusted."""
    require_trusted(app)
    event = LoopStarted(
        loop_id=loop_id,
        sequence=1,
        goal_kind=goal,
        task_keys=keys,
        budget_max_transitions=budget,
        intent_hash=intent_hash(intent),
    )
    words = {"intent": intent, "resolved_query": query}
    record = app.loops.append(event, expected_sequence=0, meta=app.origin.meta() | words)
    entity = entity_from(event, record.told)
    app.loops.write_entity(entity)
    return Loop(entity, 1)


def derive_loop_id(app: App, name: str) -> str:
    """The id of a loop for the approval *name* that starts in this minute; its six digits are derived (R8).

    They change once any loop has started here, because the same may be approved twice in one minute.
    """
    return new_loop_id(app.clock.now(), canonical_digest([app.repository.id, name, len(app.loops.ids())])[:6])


def require_trusted(app: App) -> None:
    """Raise LogDamaged if an open loop, or one of unknown state, cannot be trusted."""
    for loop_id in app.loops.ids():
        found = read_loop(app, loop_id)
        if found.damage and found.is_open:
            raise found.damage


def read_loop(app: App, loop_id: str) -> Loop:
    """The loop by its events; by its file only if the first event is gone.

    Raises NotEligible if there is neither, and LogDamaged if there are only later events.
    """
    stream, entity = app.loops.read(loop_id), _entity(app, loop_id)
    begin = next(((r.event, r.told) for r in stream.records if isinstance(r.event, LoopStarted)), None)
    if entity is None and begin:
        entity = entity_from(*begin)
    if entity is None:
        if stream.highest_sequence:
            raise _damage(loop_id, stream)
        raise NotEligible(f"Loop {loop_id} not found.", remedy=f"`{typed.loop()}` lists them")
    loop = Loop(entity, 0)
    for record in stream.records:
        loop = _fold(loop, record.event, record.told)
    whole = begin is not None and len(stream.records) == stream.highest_sequence
    return loop if whole else replace(loop, damage=_damage(loop_id, stream), sequence=stream.highest_sequence)


def remake_entity(app: App, loop_id: str) -> bool:
    """Rewrite the loop's file from its events if it is lost, damaged or different (R17); returns whether it did."""
    try:
        loop, known = read_loop(app, loop_id), _entity(app, loop_id)
    except (NotEligible, LogDamaged):
        return False
    if loop.damage or known == loop.entity:
        return False
    app.loops.write_entity(loop.entity)
    return True


def _entity(app: App, loop_id: str) -> LoopEntity | None:
    """The loop's file; None if it is missing or damaged, since it only repeats what the events say."""
    try:
        return app.loops.read_entity(loop_id)
    except LogDamaged:
        return None


def _damage(loop_id: str, stream: EventStream[LoopEvent]) -> LogDamaged:
    newer = next((problem for problem in stream.problems if problem.newer), None)
    if newer:
        return LogDamaged(f"loop {loop_id}: {newer.path}: {newer.what}")
    found = next((f"{problem.path}: {problem.what}" for problem in stream.problems), "some of its events are gone")
    return LogDamaged(
        f"loop {loop_id} cannot be trusted: {found}",
        remedy="restore it: `irontree init --from-backup`; "
        f"if it is lost for good, move .mino/loops/{loop_id} and its .yml away",
    )


def read_loops(app: App) -> tuple[tuple[Loop, ...], tuple[str, ...]]:
    """All loops that can be read, oldest first, and the problems with any loop's files."""
    loops: list[Loop] = []
    problems: list[str] = []
    for loop_id in app.loops.ids():
        try:
            loops.append(loop := read_loop(app, loop_id))
            problems += [in_words(loop.damage)] if loop.damage else []
            app.loops.read_entity(loop_id)
        except (NotEligible, LogDamaged) as error:
            problems.append(in_words(error))
    loops.sort(key=lambda loop: loop.entity.created_at)  # an id holds only the minute
    return tuple(loops), tuple(problems)


def open_loops(app: App) -> tuple[Loop, ...]:
    """Loops that have not ended, oldest first."""
    return still_open(read_loops(app)[0])


def still_open(loops: Iterable[Loop]) -> tuple[Loop, ...]:
    """Those of *loops* that have not ended."""
    return tuple(loop for loop in loops if loop.is_open)


def only_open(app: App, command: Callable[[str], str] = typed.resume) -> Loop:
    """The loop that is open. Raises NotEligible, listing them with their *command*, unless it is exactly one."""
    match open_loops(app):
        case (loop,):
            return loop
        case ():
            raise NotEligible(
                "No loop is open.", remedy=f"`{typed.loop()}` lists all; `irontree task SPEC.md` starts one"
            )
        case several:
            lines = (f"\n  {command(loop.id)}  ({loop.entity.intent})" for loop in several)
            raise NotEligible(f"{len(several)} loops are open:{''.join(lines)}", remedy="name one of them")


def may_ask(app: App) -> bool:
    """Whether an issue or a loop may have an open question; if not, the forge need not be asked for answers."""
    world = read_world(app)
    asked = any(world.halt_of(state) for state in world.states.values())
    return asked or any(loop.entity.status == "halted" for loop in read_loops(app)[0])


def loop_of(loops: Sequence[Loop], task_key: str) -> str | None:
    """The id of the newest of these open loops that has this task in scope."""
    return next((loop.id for loop in reversed(loops) if task_key in loop.keys), None)


def newest_over_each(loops: Sequence[Loop]) -> dict[str, Loop]:
    """The newest loop over each task; *loops* are all, oldest first."""
    return {key: loop for loop in loops for key in loop.entity.task_keys}


def left_out(loop: Loop, world: World) -> frozenset[str]:
    """Tasks that *loop* skipped (R17), except those that were accepted all the same: evidence counts."""
    return frozenset(key for key in loop.cancelled if not world.is_proven(key))


def skipped(loops: Sequence[Loop], world: World) -> frozenset[str]:
    """Tasks that the newest loop over them leaves out; *loops* are all, oldest first."""
    over_each = newest_over_each(loops)
    return frozenset(key for loop in loops for key in left_out(loop, world) if over_each[key] is loop)


def spend(app: App, loop_id: str, task_key: str, skill: str) -> None:
    """Count one transition durably before it is taken (R12)."""

    def counted(entity: LoopEntity) -> LoopEntity:
        taken = Transition(iso=app.stamp(), task_key=task_key, skill=skill, outcome="started")
        transitions = (*entity.transitions, taken)[-TRANSITIONS_KEPT:]
        return entity.model_copy(update={"budget_used": entity.budget_used + 1, "transitions": transitions})

    _change(app, loop_id, counted)


def settle(app: App, loop_id: str, outcome: str) -> None:
    """Write the outcome of the last transition into the entity's list."""

    def settled(entity: LoopEntity) -> LoopEntity:
        if not entity.transitions:
            return entity
        last = entity.transitions[-1].model_copy(update={"outcome": outcome})
        return entity.model_copy(update={"transitions": (*entity.transitions[:-1], last)})

    _change(app, loop_id, settled)


def halt(app: App, loop_id: str, reason: Halt) -> Loop:
    """Record that the loop halted, unless it has halted already. One without tasks is cancelled instead."""
    loop = read_loop(app, loop_id)
    if not loop.keys and loop.is_open:  # a skip was cut short after its last task
        return cancel(app, loop_id, app.origin.actor, reason=NOTHING_LEFT)
    if loop.entity.status != "running":
        return loop
    used = loop.entity.budget_used
    event = LoopHalted(
        **_next(loop), halt_reason=reason.reason, halt_at_task_key=reason.task_key, transitions_used=used
    )
    meta = {"detail": reason.detail, "waiting": [*reason.waiting]}
    return _record(app, loop, event, {key: value for key, value in meta.items() if value})


def resume(app: App, loop_id: str, by: str = "", note: str = "") -> Loop:
    """Record that the loop resumes and who decided it, unless it is running. Raises NotEligible if it has ended."""
    loop = read_loop(app, loop_id)
    entity = loop.entity
    if entity.status == "running":
        return loop
    if entity.status != "halted" or entity.halt_reason is None:
        message = f"Loop {loop_id} status is {entity.status}; only halted loops can be resumed."
        raise NotEligible(message, remedy=f"start a new one: `irontree task {shell_path(entity.intent)}`")
    event = LoopResumed(**_next(loop), previous_halt_reason=entity.halt_reason, transitions_used=entity.budget_used)
    return _record(app, loop, event, _said(by, note))


def complete(app: App, loop_id: str) -> Loop:
    """Record that everything in scope is done, except what was skipped. Raises NotEligible for a cancelled loop.

    A halted loop resumes first: the task at which it halted has been answered or skipped in the meantime.
    """
    loop = read_loop(app, loop_id)
    if loop.entity.status == "completed":
        return loop
    require_open(loop)
    loop = resume(app, loop_id)
    event = LoopCompleted(**_next(loop), completed_at=app.stamp(), transitions_used=loop.entity.budget_used)
    return _record(app, loop, event, {"skipped": sorted(loop.cancelled)} if loop.cancelled else {})


def extend(app: App, loop_id: str, extra: int, by: str, note: str = "", budget: Extension | None = None) -> Loop:
    """Allow *extra* more transitions (added event, R13), and with *budget* more spending by agents (Budgets)."""
    loop = require_open(read_loop(app, loop_id))
    total = loop.entity.budget_max_transitions + extra
    event = LoopBudgetExtended(**_next(loop), extra_transitions=extra, budget_max_transitions=total, by=by)
    return _record(app, loop, event, ({"budget": budget.as_meta()} if budget else {}) | _said(by, note))


def skip(app: App, loop_id: str, task_key: str, by: str, note: str = "") -> tuple[str, ...]:
    """Cancel the task in this loop with all that depends on it; returns the cancelled keys in order.

    The task itself comes last, with the note: if this is cut short, its question is still open, and the same answer
    completes it. A loop with nothing left is cancelled. Raises NotEligible for a task that is done or not in scope.
    """
    loop = require_open(read_loop(app, loop_id))
    if task_key not in loop.keys:
        raise NotEligible(f"{task_key} is not in the scope of loop {loop_id}", remedy=f"`{typed.loop(loop_id)}`")
    world = read_world(app)
    if world.is_done(task_key):
        raise NotEligible(f"{task_key} is done; there is nothing to skip", remedy=f"`{typed.loop(loop_id)}`")
    cancelled = cascade(loop, world, task_key)
    for key in sorted(cancelled, key=lambda key: key == task_key):
        event = LoopCancelled(**_next(loop), cancelled_at=app.stamp(), cancellation_scope="task", task_key=key)
        loop = _record(app, loop, event, _said(by, note if key == task_key else ""))
    if not loop.keys:
        cancel(app, loop_id, by, reason=NOTHING_LEFT)
    return cancelled


def cascade(loop: Loop, world: World, task_key: str) -> tuple[str, ...]:
    """What skipping *task_key* cancels: the task, its dependents and its composite ancestors (R17).

    Finished tasks stay, and so does what depends on nothing else.
    """
    graph = Graph.of(world.nodes[key] for key in loop.keys if key in world.nodes and not world.is_done(key))
    affected = graph.cascade(task_key) if task_key in graph.nodes else (task_key,)
    return tuple(key for key in loop.keys if key in affected)


def cancel(app: App, loop_id: str, by: str, *, reason: str = "", note: str = "") -> Loop:
    """End the loop for good; its issues keep their state. Raises NotEligible if it has ended already."""
    loop = require_open(read_loop(app, loop_id))
    event = LoopCancelled(**_next(loop), cancelled_at=app.stamp(), cancellation_scope="loop")
    return _record(app, loop, event, _said(by, note) | ({"reason": reason} if reason else {}))


def require_open(loop: Loop) -> Loop:
    """The loop itself. Raises NotEligible if it has ended."""
    if not loop.is_open:
        again = f"start a new one: `irontree task {shell_path(loop.entity.intent)}`"
        raise NotEligible(f"Loop {loop.id} is {loop.entity.status}", remedy=again)
    return loop


def _change(app: App, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
    """Change the entity file; if a crash kept it from being written, it is first made from the events."""
    if _entity(app, loop_id) is None:
        app.loops.write_entity(read_loop(app, loop_id).entity)
    return app.loops.change_entity(loop_id, change)


def _said(by: str, note: str) -> dict[str, Any]:
    """Who decided and their note, as far as they are given (protocol, Meta)."""
    return {key: words.strip() for key, words in (("by", by), ("note", note)) if words.strip()}


def _next(loop: Loop) -> dict[str, Any]:
    return {"loop_id": loop.id, "sequence": loop.sequence + 1}


def _record(app: App, loop: Loop, event: LoopEvent, meta: dict[str, Any]) -> Loop:
    if loop.damage:
        raise loop.damage
    written = app.loops.append(event, expected_sequence=loop.sequence, meta=app.origin.meta() | meta)
    after = _fold(loop, written.event, written.told)
    status = after.entity.model_dump(include={*_STATUS_KEYS})
    entity = _change(app, loop.id, lambda known: known.model_copy(update=status))
    return replace(after, entity=entity)


_STATUS_KEYS = ("status", "halt_reason", "halt_at_task_key", "halt_at_iso", "budget_max_transitions", "completed_at")


def _fold(loop: Loop, event: LoopEvent, told: Meta) -> Loop:
    """The loop after one more event."""
    cancelled = loop.cancelled
    if isinstance(event, LoopCancelled) and event.cancellation_scope == "task" and event.task_key:
        cancelled |= {event.task_key}
    extended = extension_from(told.budget, loop.id) if isinstance(event, LoopBudgetExtended) and told.budget else None
    return replace(
        loop,
        entity=entity_after(loop.entity, event, told),
        sequence=event.sequence,
        cancelled=cancelled,
        extensions=(*loop.extensions, extended) if extended else loop.extensions,
    )
