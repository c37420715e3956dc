"""The readiness gate before an attempt (protocol, phase 3): is the runway clear, and is it what was approved?"""

from __future__ import annotations

from irontree.app import App
from irontree.domain.decide import may_start
from irontree.domain.events import CheckupPreflightBlocked, TaskReapprovalRequired
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.errors import NotEligible
from irontree.ports import Blocker
from irontree.services.execution.record import record
from irontree.services.overview import waits_for
from irontree.services.planning.approve import changed_since_approval
from irontree.services.world import World

FREE_TRANSITIONS = 3
STALE_LOCK = "stale-run-lock"
_FREE_CHECKS = {
    "run_interrupted": "run-interrupted",
    "run_commit_failed": "commit-refused",
    "verify_publication_failed": "publication-refused",
}


def require_sound(state: TaskState) -> None:
    """Raise NotEligible for an issue whose log cannot be trusted: no event could be appended after the work."""
    if state.problem:
        raise NotEligible(
            f"issue-{state.issue_number}: {state.problem}",
            remedy=state.way_out,
        )


def require_runnable(world: World, state: TaskState) -> None:
    """Raise NotEligible, saying what to do first, unless an attempt may start (contract, eligibility)."""
    require_sound(state)
    world.require_wanted(state)
    node = world.node(state)
    where = f"issue-{state.issue_number} ({state.task_key})"
    if node.executability != "executable":
        raise NotEligible(f"{where} is a container and is never run", remedy="run its children")
    if state.phase is not Phase.READY:
        raise NotEligible(f"{where} is {state.phase}", remedy=f"`irontree show issue-{state.issue_number}`")
    if not state.started and not may_start(world.scope(()), state):
        waiting = waits_for(world, state.task_key)
        raise NotEligible(f"{where} depends on {', '.join(waiting)}, not done yet", remedy=_first(world, waiting))


def blockers(app: App, plan: Plan) -> tuple[Blocker, ...]:
    """What the machine and the repository have against an attempt now; writes nothing."""
    return app.repository.preflight(plan.policy.publish, plan.policy.workspace, exempt=(plan.spec_path,))


def stop_before_run(app: App, world: World, state: TaskState) -> TaskState | None:
    """Record why no attempt may start, if there is a reason; None if the runway is clear."""
    stopped = stop_before_verify(app, world, state) or _stop_at_stale_lock(app, state)
    if stopped:
        return stopped
    found = blockers(app, world.plans[state.task_key])
    if found:
        return block(app, state, found[0].check, found[0].message, remedy=found[0].remedy)
    return None


def stop_before_verify(app: App, world: World, state: TaskState) -> TaskState | None:
    """Record that the approval no longer fits (R6), or that free transitions spin (R12); None if neither."""
    changed = changed_since_approval(app, world, state)
    if changed:
        return record(app, state, TaskReapprovalRequired, meta={"reason": changed})
    if state.free_streak >= FREE_TRANSITIONS and state.free_event:
        reason = f"{state.free_event.replace('_', ' ')} {state.free_streak} times in a row"
        return block(app, state, _FREE_CHECKS[state.free_event], reason)
    return None


def block(app: App, state: TaskState, check: str, reason: str, *, remedy: str = "") -> TaskState:
    """Record that a person must put something right before this issue can go on."""
    meta = {"reason": reason, "remedy": remedy} if remedy else {"reason": reason}
    return record(app, state, CheckupPreflightBlocked, blocking_check=check, meta=meta)


def _stop_at_stale_lock(app: App, state: TaskState) -> TaskState | None:
    """An old lock of another tool may be overridden, but a person has to say so (contract, run lock; R3)."""
    holder = app.run_lock.stale()
    if holder is None:
        return None
    reason = f"another tool left .mino/run.lock behind long ago: {holder}"
    return block(app, state, STALE_LOCK, reason, remedy="make sure that nothing of it runs; to go on removes the file")


def _first(world: World, waiting: tuple[str, ...]) -> str:
    known = [world.states[key].issue_number for key in waiting if key in world.states]
    return f"run issue-{min(known)} first" if known else "publish its dependencies first"
