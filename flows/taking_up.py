"""From what the log says should be going on to the runs that should exist (design, section 6: crash)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.flows import runs
from irontree.flows.questions import open_question
from irontree.flows.runs import Run
from irontree.flows.starting import start_issue, start_loop
from irontree.services.loop import read_loop
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


def start_what_waits(app: App) -> tuple[str, ...]:
    """Start loops that should be running, and the runs of issues whose question nobody asks; what was started."""
    world = read_world(app)
    started: list[str] = []
    for loop_id in app.loops.ids():
        loop = read_loop(app, loop_id)
        entity = loop.entity
        if entity.status == "running" and app.lease.holder() is None:
            started.append(f"loop {loop_id}: {start_loop(app, loop_id).state_name}")
        elif entity.status == "halted" and (state := world.states.get(entity.halt_at_task_key or "")):
            started.append(f"issue-{state.issue_number}: {_ask(app, state, loop_id).state_name}")
        elif entity.status == "halted":
            started.append(f"loop {loop_id}: {start_loop(app, loop_id).state_name}")
    return tuple(started)


def _ask(app: App, state: TaskState, loop_id: str) -> Run:
    """Have the issue's run ask; one whose process died between suspending and storing its form starts again."""
    run = start_issue(app, state, loop_id)
    with runs.connect() as client:
        if run.state == "PAUSED" and open_question(client, run.id) is None:
            return runs.reschedule(client, run.id)
    return run


def _is_dead(app: App, run: Run, *, nothing_starts: bool) -> bool:
    if app.alive(str(run.id)).holder() is not None:
        return False
    return nothing_starts or run.since is None or datetime.now(UTC) - run.since > STARTING
