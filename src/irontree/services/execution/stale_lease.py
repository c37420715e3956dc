"""The lease of a loop that nobody drives any more: taken over once that is certain or confirmed (protocol, lease).

That one of our own processes is gone, the kernel says. Of another tool or host a person has to say so: the loop that
meets its lease stops with a question.
"""

from __future__ import annotations

from typing import Final

from irontree.app import App
from irontree.domain.decide import Halt
from irontree.errors import LogDamaged, NotEligible
from irontree.ports import LeftLease
from irontree.services.execution.recovery import catch_up
from irontree.services.execution.steps import follow_up
from irontree.services.loops import loop
from irontree.services.loops.choice import next_decision
from irontree.services.record.world import read_world
from irontree.services.work.preflight import block

STALE_LEASE: Final = "stale-loop-lease"


def recover_lease(app: App, loop_id: str, *, wait_seconds: float = 0) -> Halt | None:
    """Take over what a process of ours left of another loop; where a person must confirm it, the halt to ask at.

    The question is recorded at the issue that this loop would work on next. Raises Busy without the driver lock.
    """
    _halt_left(app, loop_id, app.lease.left())
    left = app.lease.stale()
    if left is None:
        return None
    with app.driver.hold(f"loop {loop_id}, stale lease", wait_seconds=wait_seconds):
        catch_up(app)
        decision = next_decision(app, loop_id)
        if isinstance(decision, Halt):
            return decision
        state = read_world(app).states[decision.task_key]
        reason = f"stale loop lease detected: another tool left .mino/loops/active.lock behind: {left.words}"
        remedy = "make sure that nothing of it runs; to go on takes its lease over, and halts its loop"
        follow_up(app, block(app, state, STALE_LEASE, reason, remedy=remedy))
    return Halt("blocked", decision.task_key)


def take_over_lease(app: App) -> None:
    """Do what was confirmed: the loop that had the lease has halted, and the lease is free. Nothing without one."""
    left = app.lease.stale()
    if left:
        _halt_left(app, "", left)
        app.lease.override()


def _halt_left(app: App, loop_id: str, left: LeftLease | None) -> None:
    """Record in the previous loop that it was taken over; another tool's may not be known here."""
    if left is None or left.loop_id in (None, loop_id) or left.loop_id not in app.loops.ids():
        return
    try:
        loop.halt(app, left.loop_id, Halt("stale_takeover", detail=left.words))
    except (NotEligible, LogDamaged) as error:
        app.progress.note(f"loop {left.loop_id} was taken over, and its own log cannot say so: {error.message}")
