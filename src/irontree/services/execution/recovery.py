"""What an earlier driver left is put in order before anything else is done (R3, R9, R11).

Who pushed it, or merged it by hand, cannot be told from git, so a person says it again: acceptance finds it there and
records it. Any other answer would give up, or do again, what everybody has. What is proposed has its request to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from irontree.app import App
from irontree.domain.state import Phase, TaskState
from irontree.errors import FORGE_FAILED, AnswerRefused, EnvironmentRefused, RemoteFailed
from irontree.services.delivery.deliver import deliver, tell_halts
from irontree.services.execution.merging import is_proposed, settle_requests
from irontree.services.execution.publish import cut_short, publish
from irontree.services.execution.run import recover
from irontree.services.loops.choice import replace_open
from irontree.services.proposals.again import approve_reverted
from irontree.services.questions.brief import write_projections
from irontree.services.record.world import World, read_world

# --- Work that is published already though the log still has it wait for acceptance


def require_not_landed(app: App, world: World, state: TaskState) -> None:
    """Raise AnswerRefused if the commit that waits is on its target, fetched now; as last fetched if it is away."""
    fetch_targets(app, world, (state,))
    for number, what, way_on in landed(app, world, (state,)):
        raise AnswerRefused(f"issue-{number}: {what}; only acceptance is left", remedy=way_on)


def fetch_targets(app: App, world: World, states: Iterable[TaskState]) -> None:
    """Fetch the targets of what waits for acceptance; one that is away stays as last fetched.

    The caller holds the driver lock.
    """
    waiting = (world.plan(state).policy.publish for state in states if waits_with_commit(world, state))
    for where in {(policy.remote, policy.target_branch): policy for policy in waiting}.values():
        with suppress(RemoteFailed, EnvironmentRefused):
            app.repository.base(where)


def landed(app: App, world: World, states: Iterable[TaskState]) -> Iterator[tuple[int, str, str]]:
    """Issue number, what is the matter, and what to do, of those that wait though their target has their commit.

    As last fetched.
    """
    for state in states:
        if not waits_with_commit(world, state) or state.anchor is None:
            continue
        where = world.plan(state).policy.publish
        if app.repository.has_published(state.anchor, where):
            what = f"{state.anchor[:12]} waits for acceptance, but {where.target_branch} has it already"
            yield state.issue_number, what, _way_on(state)


def waits_with_commit(world: World, state: TaskState) -> bool:
    """Whether acceptance would publish a commit."""
    if state.phase is not Phase.PENDING or state.problem or not state.has_code or is_proposed(state):
        return False
    return state.task_key in world.plans and state.task_key not in world.cancelled


def _way_on(state: TaskState) -> str:
    return (
        f"`irontree checkup accept issue-{state.issue_number}` records that; what is to be different goes into its "
        "document then"
    )


# --- What an earlier driver left behind is put in order before anything else is done


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
