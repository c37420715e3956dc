"""One run starts or waits for another; each is a top-level run of its own deployment, never a subflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.errors import ServerUnavailable
from irontree.flows.runs.runs import (
    RunInfo,
    connect,
    deployment,
    ensure_run,
    find_runs,
    issue_key,
    issue_tag,
    loop_key,
    state,
    tags,
    url_for,
)
from irontree.services.loops.choice import replacement
from irontree.services.loops.loop import loop_of, open_loops, read_loop
from irontree.services.record import read_world
from irontree.services.views.history import say_issue_event
from irontree.services.views.overview import title_of


def pages_of_issues(app: App, loop_id: str) -> Mapping[int, str]:
    """The pages of the runs of this loop's issues, by issue number, as far as there are any; none without a server."""
    states = read_world(app).states
    keys = {issue_key(app, states[key]): states[key] for key in read_loop(app, loop_id).keys if key in states}
    try:
        with connect() as client:
            found = find_runs(client, list(keys))
    except ServerUnavailable:
        return {}
    return {keys[key].issue_number: url_for(run.id) for key, run in found.items()}


def row_title(app: App, state: TaskState) -> str:
    """The row of an issue on the loop's page: `#3 Split an expense`."""
    return f"#{state.issue_number} {title_of(read_world(app), state.task_key)}"


def what_happened(app: App, issue_number: int, *, after: int) -> Iterator[str]:
    """The events of the issue behind the sequence *after*, in words."""
    for record in app.log.read(issue_number).records:
        if record.event.sequence > after:
            yield f"#{issue_number} {say_issue_event(record)}"


# --- Waits for what another run brings about by looking at our own log


Found = TypeVar("Found")

LOOK_EVERY = 0.1
ASK_EVERY = 2.0


async def wait_for(look: Callable[[], Found | None], run_id: UUID) -> Found | RunInfo:
    """Return what *look* finds, or the run if it ended or was suspended without that.

    *look* reads the log: it is called in a thread, often, and once more after the run has stopped.
    """
    ask_at = time.monotonic() + ASK_EVERY
    while (found := await asyncio.to_thread(look)) is None:
        if time.monotonic() >= ask_at:
            run = await asyncio.to_thread(_read, run_id)
            if run.final or run.state == "PAUSED":
                found = await asyncio.to_thread(look)
                return run if found is None else found
            ask_at = time.monotonic() + ASK_EVERY
        await asyncio.sleep(LOOK_EVERY)
    return found


def _read(run_id: UUID) -> RunInfo:
    with connect() as client:
        return state(client, run_id)


# --- One run starts another, each a top-level run of its own deployment (rulings, Questions)


LOOP_STARTS_WITHIN = 30.0
"""Seconds that an answered issue's run waits for its loop; later the loop starts it again."""


def start_issue(app: App, state: TaskState, loop_id: str | None) -> RunInfo:
    """Have the run of this issue waiting, working or asking; the same run for the issue's whole life."""
    with connect() as client:
        return ensure_run(
            client,
            deployment("issue", app),
            key=issue_key(app, state),
            parameters={
                "repository": str(app.repository.root),
                "number": state.issue_number,
                "loop_id": loop_id,
            },
            name=row_title(app, state),
            tags=tags(app, issue_tag(state.issue_number)),
        )


def start_own_run(app: App, number: int, loop_id: str | None) -> RunInfo:
    """Have the issue's own run, for one that was made by hand: in the loop that it names, or that has the issue."""
    state = read_world(app).state(number)
    return start_issue(app, state, loop_id or loop_of(open_loops(app), state.task_key))


def start_loop(app: App, loop_id: str) -> RunInfo:
    """Have a run that drives this stretch of the loop; the same one for whoever asks twice."""
    loop = read_loop(app, loop_id)
    with connect() as client:
        return ensure_run(
            client,
            deployment("loop", app),
            key=loop_key(app, loop_id, loop.sequence),
            parameters={"repository": str(app.repository.root), "loop_id": loop_id},
            name=f"loop {loop_id}",
            tags=tags(app, f"loop:{loop_id}"),
        )


async def let_loop_go_on(app: App, number: int, loop_id: str | None) -> bool:
    """Start the next run of a loop that halted at this issue, whose question is answered; whether it goes on now.

    Waits until that run has the lease and says so, or ends without.
    """
    if loop_id is None:
        return False
    following = await asyncio.to_thread(replacement, app, loop_id)
    if following and following.sequence == 1:  # the answer was an approval of other tasks: nobody drives these yet
        await asyncio.to_thread(start_loop, app, following.id)
    if not await asyncio.to_thread(_halted_at, app, loop_id, number):
        return False
    run = await asyncio.to_thread(start_loop, app, loop_id)
    # With two halted loops answered at once, each issue's run would keep the slot that the other's loop needs.
    with suppress(TimeoutError):
        going_on = wait_for(lambda: None if _halted_at(app, loop_id, number) else True, run.id)
        await asyncio.wait_for(going_on, LOOP_STARTS_WITHIN)
    return not await asyncio.to_thread(_halted_at, app, loop_id, number)


def _halted_at(app: App, loop_id: str, number: int) -> bool:
    entity = read_loop(app, loop_id).entity
    return entity.status == "halted" and entity.halt_at_task_key == read_world(app).state(number).task_key
