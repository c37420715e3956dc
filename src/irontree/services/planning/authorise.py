"""A person's word for a set of issues puts it into force, whole, and safe to repeat after a crash at any point."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from irontree.app import App
from irontree.domain.ids import intent_hash
from irontree.domain.intent import Issues, OpenIssues
from irontree.domain.loop import LoopEntity
from irontree.errors import Busy, NeedsBreakdown, NotEligible
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.recovery import settle_leftovers
from irontree.services.gates import require_no_gate
from irontree.services.loops.lease import refuse_at_work
from irontree.services.loops.loop import Loop, cancel, read_loops, require_trusted, start
from irontree.services.planning.adopt import approved, mark_composite, put_in_force
from irontree.services.planning.approve import release_approved
from irontree.services.planning.resolve import ResolvedPlan, left_in, resolve
from irontree.services.projections.brief import write_projections
from irontree.services.world import read_world


def resolve_to_approve(app: App, intent: Issues | OpenIssues, words: str) -> ResolvedPlan:
    """`resolve`, and a named issue that is composite gets its label; raises as `resolve` does.

    While somebody else has the driver lock the label waits for another time (contract, labels; ruling R3).
    """
    try:
        return resolve(app, intent, words)
    except NeedsBreakdown as error:
        with suppress(Busy), app.driver.hold(f"#{error.number}, label"):
            mark_composite(app, error.number)
        raise


def mark_excluded(app: App, resolved: ResolvedPlan) -> None:
    """Label what was left out because it has to be split first."""
    for each in resolved.excluded:
        if each.composite:
            mark_composite(app, each.number)


def authorise_issues(app: App, resolved: ResolvedPlan, by: str) -> Loop:
    """Take in and approve what was shown, and start its loop. The caller holds the driver lock.

    Each issue's plan comes first, then its stream, then the loop. Raises ApprovalRefused while an issue leaves
    something open, where it is not what was shown any more, and in a form for what has a gate; Busy while a loop over
    some of the tasks is at work, and NotEligible while another loop has them. Raises as `resolve` does.
    """
    _require_as_shown(app, resolved)
    require_no_gate(app, (member.node.task_key for member in resolved.due))
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
    _require_as_shown(app, resolved)
    _replaceable(app, replace(resolved, open_loop=None))
    _take_in(app, resolved, by, loop_mode=False)
    app.repository.back_up()


def _require_as_shown(app: App, resolved: ResolvedPlan) -> None:
    """Raise ApprovalRefused unless the same words ask for the same now, and the same loop goes on with it."""
    now = resolve(app, resolved.asked, resolved.intent)
    now.require_named(resolved.name)
    if now.stamp != resolved.stamp:
        raise now.refused(f"the loop of {resolved.query} changed while it was looked at")


def _take_in(app: App, resolved: ResolvedPlan, by: str, *, loop_mode: bool) -> None:
    plans = [approved(app, member.plan, by, loop_mode=loop_mode) for member in resolved.due]
    settle_leftovers(app)
    put_in_force(app, *plans)
    released = release_approved(app, by)
    world = read_world(app)
    for number in released:
        deliver(app, number)
        write_projections(app, world, world.state(number))
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
    keys, world = set(resolved.keys), read_world(app)
    own = resolved.open_loop.id if resolved.open_loop else None
    others = (loop for loop in read_loops(app)[0] if loop.is_open and loop.id != own)
    shared = tuple(loop for loop in others if keys & set(loop.keys))
    refuse_at_work(app, shared, "some of these tasks")
    for loop in shared:
        if not left_in(loop, world) <= keys:
            first = next(key for key in resolved.keys if key in loop.keys)
            raise NotEligible(
                f"loop {loop.id} is open, and has {first} among its tasks",
                remedy=f"go on with it: `irontree task resume {loop.id}`, "
                f"or end it: `irontree task resume {loop.id} cancel`",
            )
    return shared
