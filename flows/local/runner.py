"""The process that serves a repository's deployments: a Prefect runner. `irontree.flows.local.serving` starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.schedules import Cron

from irontree.flows.local.lifeline import RUNNER, end_with

QUERY_SECONDS = 1.0


def main() -> None:
    """Serve what the order on stdin says until killed; the parent's pid is the first argument."""
    end_with(int(sys.argv[1]), lambda: os.killpg(0, signal.SIGKILL))
    os.environ[RUNNER] = str(os.getpid())
    order = json.load(sys.stdin)
    tempfile.tempdir = order["folder"]  # the runner's own scratch folder; the parent removes it
    asyncio.run(_serve(order["deployments"], order["limit"]))


async def _serve(deployments: list[dict[str, Any]], limit: int) -> None:
    runner = Runner(query_seconds=QUERY_SECONDS, limit=limit, pause_on_shutdown=False)
    made = [_deployment(served) for served in deployments]
    ids = {f"{deployment.flow_name}/{deployment.name}": await runner.aadd_deployment(deployment) for deployment in made}
    async with get_client() as client:
        await drop_missed(client, ids.values())
    _report(ids)
    await runner.start()


def _deployment(served: Mapping[str, Any]) -> RunnerDeployment:
    """A deployment with its schedule, which has a slug: `prefect deploy` gives the same one the same slug."""
    cron, slug, rest = served["cron"], served["slug"], {k: v for k, v in served.items() if k not in ("cron", "slug")}
    return RunnerDeployment.from_entrypoint(**rest, schedules=[Cron(cron, timezone="UTC", slug=slug)] if cron else None)


async def drop_missed(client: PrefectClient, deployments: Collection[UUID]) -> None:
    """Of the scheduled runs that nobody served in time keep the latest per deployment: one janitor is enough."""
    made_up_for: set[UUID | None] = set()
    for run in await _missed(client, deployments):
        if run.deployment_id in made_up_for:
            await client.delete_flow_run(run.id)
        made_up_for.add(run.deployment_id)


async def _missed(client: PrefectClient, deployments: Collection[UUID]) -> list[FlowRun]:
    waiting = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=list(deployments)),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
            expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": datetime.now(UTC)}),
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
    )
    return [run for run in waiting if run.auto_scheduled]


def _report(deployments: Mapping[str, UUID]) -> None:
    """Tell the parent that we are ready; from here on stdout is the log, for the flow processes' output."""
    sys.stdout.write(json.dumps(deployments, default=str) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
