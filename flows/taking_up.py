"""From what the log says should be going on to the runs that should exist (design, section 6: crash)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.errors import Busy
from irontree.flows import runs
from irontree.flows.names import issue_tag, loop_key
from irontree.flows.questions import open_question
from irontree.flows.runs import Run
from irontree.flows.starting import start_issue, start_loop
from irontree.services.loop import read_loop
from irontree.services.recovery import catch_up
from irontree.services.steps import Question, next_step
from irontree.services.world import read_world

STARTING = timedelta(seconds=120)
"""A process that was just started has not taken its lock yet."""


def mark_dead_runs(app: App, *, own: str | None = None, nothing_starts: bool = False) -> tuple[str, ...]:
    """Say of runs that no living process has that they crashed; what was said, one line each.

    A run is alive as long as its process holds its lock (ruling R3). *nothing_starts*: nobody serves this
    repository, so no run is about to take its lock either.
    """
    with runs.connect() as client:
        dead = [
            run
            for run in runs.taken_up(client, app.repository.id)
            if str(run.id) != own and _is_dead(app, run, nothing_starts=nothing_starts)
        ]
        for run in dead:
            runs.mark_crashed(client, run, "its process is gone")
    return tuple(f"{run.name}: its process is gone" for run in dead)


def put_in_order(app: App, who: str) -> None:
    """Settle and deliver what a crash left undone; who holds the driver lock now has done that already (R9, R11)."""
    with suppress(Busy), app.driver.hold(f"{who}, catch up"):
        catch_up(app)


def start_what_waits(app: App) -> tuple[str, ...]:
    """Have each open loop driven or asking; what is now waiting, working or asking, one line each."""
    found = ((loop_id, take_up(app, loop_id)) for loop_id in app.loops.ids())
    return tuple(f"loop {loop_id}: {run.name} is {run.state_name}" for loop_id, run in found if run)


def take_up(app: App, loop_id: str) -> Run | None:
    """Have the right run of this loop working or asking, by what the log says; None if the loop has ended.

    Safe to call at any time, by anybody: what is going on already is left alone. None too while another loop is at
    work here (R19).
    """
    entity = read_loop(app, loop_id).entity
    if entity.status in ("completed", "cancelled"):
        return None
    state = read_world(app).states.get(entity.halt_at_task_key or "")
    if state and isinstance(next_step(app, state.issue_number, loop_id), Question):
        return _have_asking(app, state, loop_id)
    if state:
        wake(app, state.issue_number)
    if app.lease.holder() is not None:
        return newest_run(app, loop_id)
    return start_loop(app, loop_id)


def wake(app: App, issue_number: int) -> tuple[Run, ...]:
    """Let what is suspended for this issue look at the log again: the question was answered elsewhere.

    That may be the run of an earlier revision, which asked for the approval of this one.
    """
    with runs.connect() as client:
        suspended = runs.suspended(client, app.repository.id, issue_tag(issue_number))
        return tuple(runs.reschedule(client, run.id) for run in suspended)


def newest_run(app: App, loop_id: str) -> Run | None:
    """The newest run of this loop; None after Prefect's database was deleted."""
    newest = read_loop(app, loop_id).sequence
    with runs.connect() as client:
        found = (runs.find_run(client, loop_key(app, loop_id, n)) for n in range(newest, 0, -1))
        return next((run for run in found if run), None)


def _have_asking(app: App, state: TaskState, loop_id: str) -> Run:
    """Have the issue's run ask; one whose process died between suspending and storing its form starts again."""
    run = start_issue(app, state, loop_id)
    if run.state != "PAUSED" or app.alive(str(run.id)).holder() is not None:
        return run
    with runs.connect() as client:
        return run if open_question(client, run.id) else runs.reschedule(client, run.id)


def _is_dead(app: App, run: Run, *, nothing_starts: bool) -> bool:
    if app.alive(str(run.id)).holder() is not None:
        return False
    return nothing_starts or run.since is None or datetime.now(UTC) - run.since > STARTING
