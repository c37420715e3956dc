"""The process that serves many repositories' deployments for `irontree serve`: a Prefect worker of our pool."""

from __future__ import annotations

import platform
from typing import Any

from prefect.deployments.runner import RunnerDeployment
from prefect.workers.process import ProcessWorker

from irontree.flows.local.child import report, run_child
from irontree.flows.local.deployments import POOL
from irontree.flows.local.registration import register


async def serve(deployments: list[dict[str, Any]], limit: int) -> None:
    """Take up the runs in their queues, at most *limit* at a time of each: the queues see to that."""
    report(await register(deployments, queue_limit=limit, add=RunnerDeployment.aapply))
    queues = sorted({served["name"] for served in deployments})
    await ProcessWorker(POOL, work_queues=queues, name=f"irontree on {platform.node()}").start()


if __name__ == "__main__":
    run_child(serve)
