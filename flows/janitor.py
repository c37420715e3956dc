"""`janitor`: find runs whose process died and questions that no run asks, and resume them from the log."""

from __future__ import annotations

import asyncio

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from irontree.domain.text import counted
from irontree.flows.runs.recovery import fails_if_refused, hold_liveness, mark_dead_runs, take_up_all, tidy
from irontree.flows.serve.chores import take_requests, tell_what_waits
from irontree.services.answers.comments import look
from irontree.services.consistency.reconcile import drop_old_transcripts
from irontree.services.execution.steps import put_in_order
from irontree.services.loops.loop import read_loops
from irontree.services.toolchain.looking import TeamLookout
from irontree.tasks.artifacts import mirror
from irontree.tasks.stages import open_here


@flow(name="janitor", flow_run_name="janitor", retries=0, persist_result=False)
@fails_if_refused
async def janitor(repository: str) -> State[None]:
    """Take up what a crash, a restart or a deleted Prefect database left: the log says what should be going on.

    Args:
        repository: The folder of the repository.
    """
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        await asyncio.to_thread(tidy, app)
        _, unreadable = await asyncio.to_thread(read_loops, app)
        dead = await asyncio.to_thread(mark_dead_runs, app)  # first: what comes next may have to refuse
        await asyncio.to_thread(put_in_order, app, "janitor")
        looked = await asyncio.to_thread(look, app)
        await asyncio.to_thread(take_requests, app, TeamLookout())
        await asyncio.to_thread(mirror, app)
        found = await asyncio.to_thread(take_up_all, app)
        await asyncio.to_thread(list, tell_what_waits(app))
        await asyncio.to_thread(drop_old_transcripts, app)
    for line in unreadable:
        get_run_logger().warning(line)
    comments = (f"#{one.issue_number}: the answer of {one.by} was {one.outcome}" for one in looked if one.by)
    dead += found.dead
    for line in (*dead, *comments, *found.approving, *found.going, *found.closed, *found.asking):
        get_run_logger().info(line)
    return Completed(message=f"{counted(len(dead), 'dead run')}, {counted(len(found.going), 'open loop')}")
