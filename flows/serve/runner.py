"""The process that serves one repository's deployments for a terminal: a Prefect runner."""

from __future__ import annotations

from typing import Any

from prefect.runner import Runner

from irontree.flows.serve.registration import register
from irontree.flows.serve.worker import report, run_child

QUERY_SECONDS = 1.0


async def serve(deployments: list[dict[str, Any]], limit: int) -> None:
    """Take up their runs, at most *limit* at a time."""
    runner = Runner(query_seconds=QUERY_SECONDS, limit=limit, pause_on_shutdown=False)
    report(await register(deployments, queue_limit=limit, add=runner.aadd_deployment))
    await runner.start()


if __name__ == "__main__":
    run_child(serve)
