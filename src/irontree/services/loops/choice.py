"""Which loop an approval starts, continues or replaces (R7, R17), which leases refuse it, and what a loop does next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from irontree.app import App
from irontree.domain import typed
from irontree.domain.decide import Decision, Halt, Scope, decide
from irontree.domain.ids import digest_of
from irontree.domain.loop import OPEN
from irontree.domain.plan import Plan
from irontree.errors import Busy
from irontree.services.loops.funds import Funds, read_funds
from irontree.services.loops.loop import (
    Loop,
    cancel,
    derive_loop_id,
    open_loops,
    read_loop,
    read_loops,
    require_trusted,
    start,
)
from irontree.services.record import World, read_world


def refuse_beside_loop(app: App) -> None:
    """Raise Busy while a loop is active, here or by another tool's lease: it takes the steps itself (contract)."""
    _refuse_beside_foreign(app)
    if stale := app.lease.stale():
        raise Busy(
            f"stale loop lease detected: {stale.words} (.mino/loops/active.lock)",
            remedy="`irontree task` asks whether to take it over, and cleans up",
        )
    if holder := app.lease.holder():
        raise Busy(
            f"loop {holder.what} is at work here ({holder.about})",
            remedy="`irontree status` shows how far it is; it stops by itself when a decision is yours",
        )


def refuse_at_work(app: App, loops: Iterable[Loop], over: str) -> None:
    """Raise Busy if one of *loops* is active or was left by another tool; *over* names what they share.

    Also raised while another tool's loop is active, because the tasks of that loop are unknown here.
    """
    _refuse_beside_foreign(app)
    holder, stale = app.lease.holder(), app.lease.stale()
    for loop in loops:
        if holder and holder.what == loop.id:
            raise Busy(
                f"loop {loop.id} is at work on {over}",
                remedy=f"wait until it halts, or cancel it: `{typed.stop(loop.id)}`",
            )
        if stale and stale.loop_id == loop.id:
            raise Busy(
                f"stale loop lease detected: {stale.words} (.mino/loops/active.lock)",
                remedy=f"`{typed.resume(loop.id)}` asks whether to take it over",
            )


def _refuse_beside_foreign(app: App) -> None:
    if foreign := app.lease.foreign():
        raise Busy(f"another tool's loop is at work here: {foreign}", remedy="wait until it halts")


# --- The loop that an approval starts, continues or replaces (R7, R17)


def loop_over(
    app: App, world: World, keys: Collection[str], *, begins_again: bool = False, besides: Collection[str] = ()
) -> Loop | None:
    """The loop that an approval of exactly these tasks continues; None if it starts a new one.

    This is the newest open loop over them or, unless *begins_again*, one that has completed them all: approving twice
    is no new work. *besides* are ignored. No other rule decides this. What was skipped in the loop stays skipped, as
    when it is resumed, whether or not these tasks include it; the approval shows this.
    """
    finished = not begins_again and all(world.is_done(key) for key in keys)
    statuses = (*OPEN, "completed") if finished else OPEN
    known = (loop for loop in reversed(read_loops(app)[0]) if loop.entity.status in statuses)
    return next((loop for loop in known if _is_over(loop, keys, besides)), None)


def loop_for(app: App, plan: Plan, intent: str, loop_id: str = "") -> Loop:
    """The loop over exactly the tasks of *plan*; a new one if there is none (the approval named Loop Mode).

    *loop_id* is the id shown in the approval, if any. An open loop of the same document over other tasks is cancelled:
    the last approval counts.
    """
    keys = _keys(plan)
    loop = loop_over(app, read_world(app), keys) or _new_loop(app, plan, intent, keys, loop_id)
    replaced = _replaced(app, plan.spec_path, keys)
    _cancel(app, plan, replaced)  # last: while one of them is open, an approval that was cut short can be finished
    return loop


def _keys(plan: Plan) -> tuple[str, ...]:
    return tuple(node.task_key for node in plan.nodes)


def _new_loop(app: App, plan: Plan, intent: str, keys: tuple[str, ...], shown: str) -> Loop:
    taken = not shown or shown in app.loops.ids()
    loop_id = derive_loop_id(app, f"{digest_of(plan)}-{plan.policy.digest}") if taken else shown
    return start(app, loop_id, keys, intent=intent, query=plan.spec_path, budget=plan.budget_max_transitions)


def _cancel(app: App, plan: Plan, replaced: Iterable[Loop]) -> None:
    for loop in replaced:
        cancel(app, loop.id, plan.approved_by, reason=f"revision {plan.spec_revision} has other tasks")


def replace_open(app: App, plan: Plan, intent: str = "", loop_id: str = "") -> None:
    """Replace an open loop of the document over other tasks by one over the tasks of *plan*.

    If the approval did not name Loop Mode, the open loop is only cancelled (R17).
    """
    replaced = _replaced(app, plan.spec_path, _keys(plan))
    if replaced and plan.loop_mode:
        loop_for(app, plan, intent or plan.spec_path, loop_id)
    else:
        _cancel(app, plan, replaced)


def open_loop_of(app: App, spec_path: str) -> Loop | None:
    """The newest open loop over that document."""
    of_document = (found for found in reversed(read_loops(app)[0]) if found.entity.resolved_query == spec_path)
    return next((found for found in of_document if found.is_open), None)


def replacement(app: App, loop_id: str) -> Loop | None:
    """The open loop with which an approval of other tasks replaced this cancelled one; None if there is none."""
    entity = read_loop(app, loop_id).entity
    return open_loop_of(app, entity.resolved_query) if entity.status == "cancelled" else None


def require_at_rest(app: App, spec_path: str, keys: Collection[str]) -> None:
    """Raise Busy while a loop is active that an approval of *spec_path* with these tasks would replace.

    An active loop is never taken over (protocol, Loop lease); `loop_for` replaces one that has halted. Raises
    LogDamaged if a loop that may have these tasks cannot be trusted: no second one starts over it.
    """
    require_trusted(app)
    refuse_at_work(app, _replaced(app, spec_path, keys), spec_path)


def _replaced(app: App, spec_path: str, keys: Collection[str]) -> tuple[Loop, ...]:
    """The document's open loops over tasks other than *keys*."""
    of_document = (loop for loop in open_loops(app) if loop.entity.resolved_query == spec_path)
    return tuple(loop for loop in of_document if not _is_over(loop, keys))


def _is_over(loop: Loop, keys: Collection[str], besides: Collection[str] = ()) -> bool:
    """Whether *keys* are the loop's frozen set, with or without the tasks that were skipped in it."""
    return any(set(own) - set(besides) == set(keys) for own in (loop.keys, loop.entity.task_keys))


# --- What a loop does next (protocol, Decision Function)


def next_decision(app: App, loop_id: str) -> Decision:
    """The next decision of this loop."""
    world = read_world(app)
    return decide(scope_of(read_loop(app, loop_id), world, read_funds(app, world)))


def may_go_on(app: App, loop_id: str) -> bool:
    """Whether this loop halted at an issue and has something else to do or to ask by now: an answer has come."""
    entity = read_loop(app, loop_id).entity
    if entity.status != "halted" or entity.halt_at_task_key is None:
        return False
    now = next_decision(app, loop_id)
    return not isinstance(now, Halt) or (now.reason, now.task_key) != (entity.halt_reason, entity.halt_at_task_key)


def scope_of(loop: Loop, world: World, funds: Funds) -> Scope:
    """The tasks that the loop may work on, with its budgets."""
    return world.scope(loop.keys, loop.budget_left, funds.overspent(loop.keys))


def refuse_another(app: App, loop_id: str) -> None:
    """Raise Busy while another loop is running in this repository (R19)."""
    active = app.lease.holder()
    if active and active.what != loop_id:
        raise Busy(f"loop {active.what} is at work here", remedy=f"look on: irontree resume {active.what}")
