"""What an earlier driver left behind is put in order before anything else is done (rulings R3, R9, R11)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.state import Phase, TaskState
from irontree.errors import FORGE_FAILED
from irontree.services.delivery.deliver import deliver
from irontree.services.delivery.halted import tell_halts
from irontree.services.execution.merging import settle_requests
from irontree.services.execution.run import recover
from irontree.services.loops.loop_choice import replace_open
from irontree.services.planning.approve import approve_reverted
from irontree.services.planning.publish import cut_short, publish
from irontree.services.projections.brief import write_projections
from irontree.services.world import World, read_world


def settle_leftovers(app: App, *, spare: int | None = None) -> None:
    """Kill what still runs, and settle by evidence every attempt that was cut off, in whatever loop it was.

    Until then its work is only in the workspace, which publication and the next attempt use too. *spare* is the
    issue whose recovery is the caller's own step. The caller holds the driver lock, so nobody else is at work.
    """
    app.children.kill_leftovers()
    app.run_lock.remove()  # one that died behind its last event of an attempt could not
    world = read_world(app)
    for state in world.states.values():
        if _cut_off(world, state) and state.issue_number != spare:
            recover(app, state.issue_number)


def catch_up(app: App) -> None:
    """Settle what was left, and deliver what is due: the first thing in every command that drives (rulings R7, R9).

    The caller holds the driver lock.
    """
    settle_leftovers(app)
    _finish_publications(app)
    approve_reverted(app)
    settle_requests(app)
    world = read_world(app)
    due = [state for state in world.states.values() if _is_due(app, state)]
    for state in due:
        deliver(app, state.issue_number)
        write_projections(app, world, state)
    tell_halts(app)
    if due:
        app.repository.back_up()


def _finish_publications(app: App) -> None:
    """Go on with what was approved, and cut short before all of it had issues (ruling R6); what cannot be yet, later.

    Where the log or a plan cannot be read, a person comes first: a task may only seem to have no issue.
    """
    world = read_world(app)
    if world.problems:
        return
    for plan in cut_short(app, world):
        replace_open(app, plan)
        try:
            publish(app, plan)
        except FORGE_FAILED as error:
            app.progress.note(f"{plan.spec_path} is not published whole yet: {error.message}")


def _cut_off(world: World, state: TaskState) -> bool:
    """An attempt that can be settled: its log can be trusted, and a plan says how."""
    return state.phase is Phase.RUNNING and state.problem is None and state.task_key in world.plans


def _is_due(app: App, state: TaskState) -> bool:
    cursor = app.deliveries.load(state.issue_number)
    return cursor.sequence < state.sequence or bool(cursor.failures)
