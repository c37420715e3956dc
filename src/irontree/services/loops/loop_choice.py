"""Which loop an approval starts, goes on with, or puts in the place of another (rulings R7, R17)."""

from __future__ import annotations

from collections.abc import Collection

from irontree.app import App
from irontree.domain.ids import intent_hash
from irontree.domain.loop import OPEN, LoopEntity
from irontree.domain.plan import Plan
from irontree.errors import Busy
from irontree.services.loops.loop import Loop, cancel, draw_loop_id, read_loop, read_loops, require_trusted, start
from irontree.services.world import read_world


def loop_for(app: App, plan: Plan, intent: str, loop_id: str = "") -> Loop:
    """The open loop over exactly the tasks of *plan*; a new one if there is none (its approval named Loop Mode).

    *loop_id* is the id that the approval showed, if it showed one.

    One that has completed all of them counts as well: asking twice is no new work. An open loop that the same
    document had over other tasks is cancelled: what was approved last is what runs.
    """
    keys = tuple(node.task_key for node in plan.nodes)
    world = read_world(app)
    finished = all(world.is_done(key) for key in keys)
    fitting = (*OPEN, "completed") if finished else OPEN
    known = (found for found in reversed(read_loops(app)[0]) if found.entity.status in fitting)
    found = next((found for found in known if set(found.entity.task_keys) == set(keys)), None)
    loop = found or _new_loop(app, plan, intent, keys, loop_id or draw_loop_id(app))
    _cancel_replaced(app, plan)  # last: as long as one of them is open, an approval that is cut short can be finished
    return loop


def _new_loop(app: App, plan: Plan, intent: str, keys: tuple[str, ...], loop_id: str) -> Loop:
    entity = LoopEntity(
        loop_id=loop_id,
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
            cancel(app, found.id, plan.approved_by, reason=f"revision {plan.spec_revision} has other tasks")


def replace_open(app: App, plan: Plan, intent: str = "", loop_id: str = "") -> None:
    """Put a loop over the tasks of *plan* in the place of an open one that its document has over others.

    Only cancels that one if the approval did not name Loop Mode (ruling R17).
    """
    if plan.loop_mode and open_loop_of(app, plan.spec_path):
        loop_for(app, plan, intent or plan.spec_path, loop_id)
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

    An active loop is never taken over (protocol, Loop lease); one that has halted is replaced by `loop_for`. Raises
    LogDamaged where a loop cannot be trusted that may be over these tasks: no second one starts over it.
    """
    require_trusted(app)
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
