"""One run starts another, each a top-level run of its own deployment (rulings, Questions): never as a subflow."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.names import deployment, issue_key, issue_tag, loop_key, tags
from irontree.flows.lifecycle.pages import row_title
from irontree.flows.lifecycle.runs import Run
from irontree.flows.lifecycle.waiting import wait_for
from irontree.services.loops.loop import loop_of, open_loops, read_loop
from irontree.services.loops.loop_choice import replacement
from irontree.services.world import read_world

LOOP_STARTS_WITHIN = 30.0
"""Seconds that an answered issue's run waits for its loop; later the loop starts it again."""


def start_issue(app: App, state: TaskState, loop_id: str | None) -> Run:
    """Have the run of this issue waiting, working or asking; the same run for the issue's whole life."""
    with runs.connect() as client:
        return runs.ensure_run(
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


def start_own_run(app: App, number: int, loop_id: str | None) -> Run:
    """Have the issue's own run, for one that was made by hand: in the loop that it names, or that has the issue."""
    state = read_world(app).state(number)
    return start_issue(app, state, loop_id or loop_of(open_loops(app), state.task_key))


def start_loop(app: App, loop_id: str) -> Run:
    """Have a run that drives this stretch of the loop; the same one for whoever asks twice."""
    loop = read_loop(app, loop_id)
    with runs.connect() as client:
        return runs.ensure_run(
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
