"""`janitor`: notices runs whose process died and questions nobody asks, and takes them up again from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sized

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from irontree.flows.runs.recovery import (
    fails_if_refused,
    go_on_approving,
    hold_liveness,
    mark_dead_runs,
    put_in_order,
    start_what_waits,
    tidy,
    wake_overtaken,
)
from irontree.flows.serve.chores import remind, tell_labelled
from irontree.services.answers.comments import look
from irontree.services.consistency.reconcile import drop_old_transcripts
from irontree.services.loops.loop import read_loops
from irontree.tasks.artifacts import mirror
from irontree.tasks.stages import open_here


@flow(name="janitor", flow_run_name="janitor", retries=0, persist_result=False)
@fails_if_refused
async def janitor(repository: str) -> State[None]:
    """Take up what a crash, a restart or a deleted Prefect database left: the log says what should be going on."""
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        await asyncio.to_thread(tidy, app)
        _, unreadable = await asyncio.to_thread(read_loops, app)
        dead = await asyncio.to_thread(mark_dead_runs, app, own=flow_run.get_id())
        await asyncio.to_thread(put_in_order, app, "janitor")
        looked = await asyncio.to_thread(look, app)
        await asyncio.to_thread(mirror, app)
        approving = await asyncio.to_thread(go_on_approving, app)
        going = await asyncio.to_thread(start_what_waits, app)
        closed = await asyncio.to_thread(wake_overtaken, app)
        await asyncio.to_thread(tell_labelled, app)
        await asyncio.to_thread(remind, app)
        await asyncio.to_thread(drop_old_transcripts, app)
    for line in unreadable:
        get_run_logger().warning(line)
    comments = (f"#{found.issue_number}: the answer of {found.by} was {found.outcome}" for found in looked if found.by)
    for line in (
        *dead,
        *comments,
        *approving,
        *going,
        *(f"{run.name}: its question is asked no more" for run in closed),
    ):
        get_run_logger().info(line)
    return Completed(message=f"{_count(dead, 'dead run')}, {_count(going, 'open loop')}")


def _count(found: Sized, what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
