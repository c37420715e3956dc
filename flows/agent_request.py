"""`agent_request`: ask a member of the team what somebody wants to know, and post its answer (A3)."""

from __future__ import annotations

import asyncio

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from irontree.flows.runs.recovery import hold_liveness, waits_if_refused
from irontree.flows.runs.requests import start_requests
from irontree.flows.serve.chores import take_requests
from irontree.services.toolchain.looking import TeamLookout
from irontree.tasks.stages import open_here, request_stage


@flow(name="agent_request", flow_run_name="{key}", retries=0, persist_result=False)
@waits_if_refused
async def agent_request(repository: str, key: str) -> State[None]:
    """Go on with one request as far as what is stored of it allows, then have the next one begin.

    Args:
        repository: The folder of the repository.
        key: The key of the request, such as `mention-C123-tester`.
    """
    app = await asyncio.to_thread(open_here, repository)
    async with hold_liveness(app):
        ended = await request_stage(repository, key)
        if key.startswith("discussion-"):  # the member that is asked next waits for no other look
            await asyncio.to_thread(take_requests, app, TeamLookout())
        await asyncio.to_thread(start_requests, app)
    if ended.is_failed():
        return Failed(message=ended.message)
    return Completed(name=ended.name, message=ended.message)
