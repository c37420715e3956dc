"""The process that serves many repositories' deployments for `irontree serve`: a Prefect worker of our pool."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import PrefectHTTPStatusError
from prefect.workers.process import ProcessWorker

from irontree.flows.local.child import report, run_child
from irontree.flows.local.deployments import POOL
from irontree.flows.local.registration import drop_missed, register
from irontree.http_client import Unreachable

TIDY_EVERY = 60.0
PREFETCH_SECONDS = 1.0
"""A run that is taken up before its time keeps one of the two slots of its queue until then."""


async def serve(deployments: list[dict[str, Any]], limit: int) -> None:
    """Take up the runs in their queues, at most *limit* at a time of each: the queues see to that."""
    ids = await register(deployments, queue_limit=limit, add=RunnerDeployment.aapply, reopen=True)
    report(ids)
    queues = sorted({served["name"] for served in deployments})
    worker = ProcessWorker(
        POOL, work_queues=queues, name=f"irontree@{platform.node()}", prefetch_seconds=PREFETCH_SECONDS
    )
    async with asyncio.TaskGroup() as together:
        together.create_task(_drop_missed(ids))
        await worker.start()


async def _drop_missed(ids: Mapping[str, UUID]) -> None:
    """While a loop and its issue have both slots for hours, no schedule may pile up behind them."""
    while True:
        await asyncio.sleep(TIDY_EVERY)
        with suppress(Unreachable, PrefectHTTPStatusError):
            async with get_client() as client:
                await drop_missed(client, ids.values())


if __name__ == "__main__":
    run_child(serve)
