"""The names of a repository's deployments: `intake-todo`, chosen at the first registration and kept.

What belongs to a repository is found by a tag with its workspace id (R21): two folders may have the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import DeploymentSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed

from irontree.flows.runs.runs import PAGE, TAKEN_UP, of_repository, with_flow_name

MOVED: Final = "its deployment has another name now; what it asks is asked again in a run of that"


async def named(client: PrefectClient, served: Mapping[str, Any]) -> dict[str, Any]:
    """*served* (as `Served`) with the name that its deployment has here, or gets.

    That is the wanted one, or if another repository's has that, one with the beginning of the workspace id.
    """
    wanted, owner = served["name"], served["owner"]
    if not owner:
        return dict(served)
    flow = _flow_of(served)
    kept = [found.name for found in await _registered(client, flow, owner) if found.name != owner]
    if kept:
        return {**served, "name": kept[0]}
    with suppress(ObjectNotFound):
        await client.read_deployment_by_name(f"{flow}/{wanted}")
        return {**served, "name": f"{wanted}-{owner[:6]}"}
    return dict(served)


async def retire(client: PrefectClient, served: Sequence[Mapping[str, Any]], ids: Mapping[str, UUID]) -> None:
    """Remove the deployments that an earlier version named after the workspace id; their runs stay to be looked at.

    What they were asking is asked again under the name of now: issues and loops from the log, an approval here.
    """
    for one in (one for one in served if one["owner"]):
        flow = _flow_of(one)
        for old in await _registered(client, flow, one["owner"]):
            if old.name != one["owner"]:
                continue
            for run in await _open_runs(client, old.id):
                if flow == "intake" and run.state and run.state.is_paused():
                    new = ids[f"{flow}/{one['name']}"]
                    await client.create_flow_run_from_deployment(new, parameters=run.parameters)
                await client.set_flow_run_state(run.id, Completed(name="Superseded", message=MOVED), force=True)
            await client.delete_deployment(old.id)


def _flow_of(served: Mapping[str, Any]) -> str:
    return str(served["entrypoint"]).rpartition(".")[2]


async def _registered(client: PrefectClient, flow: str, owner: str) -> list[DeploymentResponse]:
    """That repository's deployments of the flow, the oldest first: a copy that somebody made in Prefect is younger."""
    found = await client.read_deployments(
        flow_filter=with_flow_name(flow), deployment_filter=of_repository(owner), sort=DeploymentSort.CREATED_DESC
    )
    return found[::-1]


async def _open_runs(client: PrefectClient, deployment: UUID) -> list[FlowRun]:
    chosen = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED, StateType.SCHEDULED, *TAKEN_UP])),
    )
    return await client.read_flow_runs(flow_run_filter=chosen, limit=PAGE)
