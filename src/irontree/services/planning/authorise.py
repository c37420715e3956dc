"""A person's word for a set of issues puts it into force, whole, and safe to repeat after a crash at any point."""

from __future__ import annotations

from dataclasses import replace

from irontree.app import App
from irontree.domain.ids import intent_hash
from irontree.domain.loop import LoopEntity
from irontree.errors import ApprovalRefused, Busy, NotEligible
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.execution.steps import follow_up
from irontree.services.loops.loop import Loop, cancel, read_loops, require_trusted, start
from irontree.services.planning.adopt import approved, mark_composite, put_in_force, require_answered
from irontree.services.planning.approve import release_approved
from irontree.services.planning.resolve import ResolvedPlan, left_in
from irontree.services.world import read_world


def require_named(resolved: ResolvedPlan, given: str) -> None:
    """Raise ApprovalRefused unless *given* names exactly this set with these settings."""
    if given.lower() != resolved.name:
        raise ApprovalRefused(
            f"{given} was approved, but what {resolved.query} resolves to now is {resolved.name}",
            remedy=f"look at it again and approve what it is now: --approve {resolved.name}",
        )


def require_clear(resolved: ResolvedPlan) -> None:
    """Raise ApprovalRefused while an issue of the set leaves something open."""
    for member in resolved.due:
        require_answered(member.plan)


def mark_excluded(app: App, resolved: ResolvedPlan) -> None:
    """Label what was left out because it has to be split first."""
    for each in resolved.excluded:
        if each.composite:
            mark_composite(app, each.number)


def authorise_issues(app: App, resolved: ResolvedPlan, by: str) -> Loop:
    """Take in and approve what was shown, and start its loop. The caller holds the driver lock.

    Each issue's plan comes first, then its stream, then the loop. Raises ApprovalRefused while an issue leaves
    something open, Busy while a loop over some of the tasks is at work, and NotEligible while another loop has them.
    """
    replaced = _replaceable(app, resolved)
    _take_in(app, resolved, by, loop_mode=True)
    loop = resolved.open_loop or _start(app, resolved)
    for old in replaced:
        cancel(app, old.id, by, reason=f"its tasks go on in loop {loop.id}")
    app.repository.back_up()
    return loop


def approve_issues(app: App, resolved: ResolvedPlan, by: str) -> None:
    """Take in and approve what was shown, without a loop (stepwise). The caller holds the driver lock.

    Raises as `authorise_issues` does, and Busy while any loop over some of the tasks is at work.
    """
    _replaceable(app, replace(resolved, open_loop=None))
    _take_in(app, resolved, by, loop_mode=False)
    app.repository.back_up()


def _take_in(app: App, resolved: ResolvedPlan, by: str, *, loop_mode: bool) -> None:
    plans = [approved(app, member.plan, by, loop_mode=loop_mode) for member in resolved.due]
    settle_leftovers(app)
    for plan in plans:
        put_in_force(app, plan)
    released = release_approved(app, by)
    world = read_world(app)
    for number in released:
        follow_up(app, world.state(number))
    mark_excluded(app, resolved)


def _start(app: App, resolved: ResolvedPlan) -> Loop:
    entity = LoopEntity(
        loop_id=resolved.loop_id,
        created_at=app.stamp(),
        goal_kind="task_done" if len(resolved.keys) == 1 else "set_done",
        intent=resolved.intent,
        resolved_query=resolved.query,
        task_keys=resolved.keys,
        budget_max_transitions=resolved.budget,
    )
    return start(app, entity, intent_hash(resolved.intent))


def _replaceable(app: App, resolved: ResolvedPlan) -> tuple[Loop, ...]:
    """Open loops that have none but these tasks left; raises for one at work, and for one that has others too."""
    require_trusted(app)
    keys, active, world = set(resolved.keys), app.lease.holder(), read_world(app)
    own = resolved.open_loop.id if resolved.open_loop else None
    others = (loop for loop in read_loops(app)[0] if loop.is_open and loop.id != own)
    shared = tuple(loop for loop in others if keys & set(loop.keys))
    for loop in shared:
        stop = f"`irontree task resume {loop.id} cancel`"
        if active and active.what == loop.id:
            raise Busy(f"loop {loop.id} is at work on some of these tasks", remedy=f"wait until it halts, or {stop}")
        if not left_in(loop, world) <= keys:
            first = next(key for key in resolved.keys if key in loop.keys)
            raise NotEligible(
                f"loop {loop.id} is open, and has {first} among its tasks",
                remedy=f"go on with it: `irontree task resume {loop.id}`, or end it: {stop}",
            )
    return shared
