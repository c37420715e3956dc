"""The process that serves many repositories' deployments for `irontree serve`: a Prefect worker of our pool."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import PrefectHTTPStatusError
from prefect.workers.process import ProcessWorker

from irontree.flows.serve.registration import POOL, drop_missed, register
from irontree.flows.server.private import RUNNER, end_with, keep_short
from irontree.http_client import Unreachable

Serve = Callable[[list[dict[str, Any]], int], Coroutine[Any, Any, None]]


def run_child(serve: Serve) -> None:
    """Serve what the order on stdin says until killed; the parent's pid is the first argument.

    The whole process group ends with the parent, and each flow process with us.
    """
    end_with(int(sys.argv[1]), lambda: os.killpg(0, signal.SIGKILL))
    os.environ[RUNNER] = str(os.getpid())
    order = json.load(sys.stdin)
    tempfile.tempdir = order["folder"]  # the scratch folder; the parent removes it
    keep_short(Path(order["log"]))
    asyncio.run(serve(order["deployments"], order["limit"]))


def report(deployments: Mapping[str, UUID]) -> None:
    """Tell the parent that we are ready; from here on stdout is the log, for the flow processes' output."""
    sys.stdout.write(json.dumps(deployments, default=str) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


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
