"""One run starts another, each a top-level run of its own deployment (design, section 6): never as a subflow."""

from __future__ import annotations

import asyncio

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.flows import runs
from irontree.flows.names import deployment, issue_key, loop_key, tags
from irontree.flows.runs import Run
from irontree.flows.waiting import wait_for
from irontree.services.loop import read_loop


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
            tags=tags(app, f"issue:{state.issue_number}"),
        )


def start_loop(app: App, loop_id: str) -> Run:
    """Have a run that drives this stretch of the loop; the same one for whoever asks twice."""
    loop = read_loop(app, loop_id)
    with runs.connect() as client:
        return runs.ensure_run(
            client,
            deployment("loop", app),
            key=loop_key(app, loop_id, loop.sequence),
            parameters={"repository": str(app.repository.root), "loop_id": loop_id},
            tags=tags(app, f"loop:{loop_id}"),
        )


async def let_loop_go_on(app: App, loop_id: str) -> None:
    """After an answer: start the next run of the loop, and wait until it has the lease and says it goes on.

    A loop that was stopped is left alone; one that halts again at once ends the wait.
    """
    if read_loop(app, loop_id).entity.status != "halted":
        return
    run = await asyncio.to_thread(start_loop, app, loop_id)
    await wait_for(lambda: _no_longer_halted(app, loop_id), run.id)


def _no_longer_halted(app: App, loop_id: str) -> bool | None:
    return True if read_loop(app, loop_id).entity.status != "halted" else None
