"""Flow runs from a client's view: name, create, reschedule, end and read them; read and answer their questions.

Synchronous, for the command line and threads; a flow calls them through `asyncio.to_thread`. Prefect's client
itself retries on 503 (SQLite under two writers) and on broken connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterIdempotencyKey,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import DeploymentSort, FlowRunSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Scheduled

from irontree.app import App
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.state import TaskState
from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import LOOPBACK_NAMES
from irontree.flows.server.programs import wake
from irontree.http_client import Unreachable
from irontree.services.views.history import page_of_run

IRONTREE = "irontree"
"""The tag of all our runs on a server."""


def issue_key(app: App, state: TaskState) -> str:
    """One flow run per workspace, issue and revision, for life."""
    return f"{app.repository.id}/issue-{state.issue_number}:{state.approved_revision}"


def is_key_of_issue(key: str | None, app: App, state: TaskState) -> bool:
    """Whether *key* belongs to a run of this issue, of any revision; a run created by hand has no key."""
    return key is not None and key.startswith(issue_key(app, state).removesuffix(state.approved_revision))


def loop_key(app: App, loop_id: str, sequence: int) -> str:
    """One flow run per stretch of a loop: *sequence* is the newest loop event when it is started."""
    return f"{app.repository.id}/loop-{loop_id}:{sequence}"


def tags(app: App, *more: str) -> list[str]:
    """Tags for filtering in the UI; the folder's name is for recognition only."""
    return [IRONTREE, owner_tag(app.repository.id), *more, f"folder:{app.repository.root.name}"]


def owner_tag(workspace_id: str) -> str:
    """The tag by which what belongs to a repository is found, whatever its folder is called (R21)."""
    return f"repository:{workspace_id}"


def issue_tag(issue_number: int) -> str:
    """The tag of all runs of that issue, whatever its revision."""
    return f"issue:{issue_number}"


def step_title(step: Step, state: TaskState) -> str:
    """The title of a step's row on the run's page: `run: attempt 2 of 4`, `checkup: finalize`."""
    match step:
        case Run():
            return f"run: attempt {state.attempt_count + 1} of {state.total_attempts}"
        case Recover():
            return f"run: recover attempt {state.attempt_count} of {state.total_attempts}"
        case Verify():
            return f"verify: attempt {state.attempt_count} of {state.total_attempts}"
        case Finalize():
            return "checkup: finalize"
        case Aggregate():
            return "checkup: aggregate"


# --- Flow runs as a client sees them


PATIENCE = 5.0
"""Seconds."""
PAGE = 200
"""Page size of Prefect's run listings."""
TAKEN_UP = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
"""States in which a process has the run, or died with it."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A flow run at the moment it was read; `state` is Prefect's type (`RUNNING`), `state_name` what the UI shows."""

    id: UUID
    name: str
    state: str
    state_name: str
    message: str
    parameters: Mapping[str, Any]
    since: datetime | None
    """When it entered its state, UTC."""

    @property
    def final(self) -> bool:
        """Whether it ended, well or badly; a suspended run has not."""
        return self.state in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

    @property
    def cancelled(self) -> bool:
        """Whether its cancellation was requested in Prefect; only a user's request restarts it."""
        return self.state in {"CANCELLING", "CANCELLED"}

    @property
    def taken_up(self) -> bool:
        """Whether a process has it, or died with it."""
        return self.state in {kind.value for kind in TAKEN_UP}


@contextmanager
def connect() -> Iterator[SyncPrefectClient]:
    """Open a client of the configured server; raises ServerUnavailable for every failure inside the block.

    Failures that a caller expects (something does not exist) must be caught inside.
    """
    try:
        _wait_for_loopback()
        with get_client(sync_client=True, httpx_settings=_httpx_settings()) as client:
            yield client
    except Unreachable as error:
        raise ServerUnavailable(
            f"The Prefect server at {_api_url()} cannot be reached: {error!r}.",
            remedy="See whether it runs. What is recorded in .mino/ goes on when it does.",
        ) from error
    except ObjectNotFound as error:
        raise ServerUnavailable(
            f"The Prefect server at {_api_url()} does not know a run that it knew a moment ago.",
            remedy="Try again: a run that was deleted there is made anew.",
        ) from error
    except PrefectHTTPStatusError as error:
        raise _refusal(error) from error


def _refusal(error: PrefectHTTPStatusError) -> ServerUnavailable:
    """Convert the server's error answer to an exception with a remedy."""
    if error.response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return ServerUnavailable(
            f"The Prefect server at {_api_url()} does not let us in: {error}.",
            remedy="Set PREFECT_API_KEY or PREFECT_API_AUTH_STRING in the environment, for the private server the "
            "PREFECT_SERVER_API_AUTH_STRING that it was started with, if any.",
        )
    if error.response.is_server_error:
        return ServerUnavailable(f"The Prefect server at {_api_url()} failed: {error}.")
    return ServerUnavailable(
        f"The Prefect server at {_api_url()} refused what it was asked: {error}.",
        remedy=f"See whether it is of the version that is installed here (Prefect {version('prefect')}).",
    )


def _httpx_settings() -> dict[str, Any] | None:
    """Settings for plain http that skip loading all root certificates, which takes 20 ms each time."""
    plain = (_api_url() or "").startswith("http://")
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)} if plain else None


def _api_url() -> str | None:
    return get_current_settings().api.url


def _wait_for_loopback() -> None:
    """Wait for a killed private server, which listens again within a second; Prefect's client gives up at once."""
    address = urlsplit(_api_url() or "")
    if address.hostname not in LOOPBACK_NAMES or address.port is None:
        return
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection((address.hostname, address.port), timeout=PATIENCE).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


def ensure_run(
    client: SyncPrefectClient,
    deployment: UUID,
    *,
    key: str,
    parameters: Mapping[str, Any],
    name: str | None = None,
    tags: Sequence[str] = (),
) -> RunInfo:
    """Ensure that the run of *deployment* with idempotency *key* is waiting, working or asking.

    There is one such run for life (protocol, Runs): the first call creates it, a later one finds it and, if it has
    ended, schedules the same run again. *parameters* apply from its next start. Raises ServerUnavailable if the
    deployment is not served.
    """
    run = client.create_flow_run_from_deployment(
        deployment, parameters=dict(parameters), idempotency_key=key, name=name, tags=tags
    )
    if run.parameters != parameters:
        client.update_flow_run(run.id, parameters=dict(parameters))
    wake()
    return reschedule(client, run.id) if run.state and run.state.is_final() else info_of(run)


def deployment_id(client: SyncPrefectClient, flow: str, workspace_id: str) -> UUID:
    """The id of that repository's deployment of *flow*; raises ServerUnavailable if it is not served.

    The oldest is ours: a copy that somebody made in Prefect has the same tags, and nobody takes up its runs.
    """
    found = client.read_deployments(
        flow_filter=with_flow_name(flow),
        deployment_filter=of_repository(workspace_id),
        sort=DeploymentSort.CREATED_DESC,
    )
    if not found:
        raise ServerUnavailable(
            f"The Prefect server has no deployment of {flow} for the repository {workspace_id}.",
            remedy="Serve it (`irontree resume LOOP_ID` does), or deploy it (`prefect deploy --all`).",
        )
    return found[-1].id


def reschedule(client: SyncPrefectClient, run_id: UUID) -> RunInfo:
    """Restart a run from the top: one that ended, or a suspended one that was answered elsewhere.

    A run that a process has taken up, or that is scheduled already, is left as it is.
    """
    run = state(client, run_id)
    if run.taken_up or run.state == "SCHEDULED":
        return run
    client.set_flow_run_state(run_id, Scheduled(name="Rescheduled"))
    wake()
    return state(client, run_id)


def cancel(client: SyncPrefectClient, run_id: UUID) -> RunInfo:
    """Cancel the run: at once if it is waiting or suspended, through its runner (3 to 5 s) if it is working."""
    client.set_flow_run_state(run_id, Cancelling())
    return state(client, run_id)


def supersede(client: SyncPrefectClient, run_id: UUID, reason: str) -> RunInfo:
    """End a suspended run whose question needs no answer any more, without starting a process.

    A run that has continued meanwhile, with its answer, is left as it is.
    """
    run = state(client, run_id)
    if run.state != "PAUSED":
        return run
    client.set_flow_run_state(run_id, Completed(name="Superseded", message=reason))
    return state(client, run_id)


def state(client: SyncPrefectClient, run_id: UUID) -> RunInfo:
    """The run's current state; a deleted run counts as crashed: it did not finish."""
    try:
        return info_of(client.read_flow_run(run_id))
    except ObjectNotFound:
        return RunInfo(run_id, "", "CRASHED", "Deleted", "it was deleted in Prefect", {}, None)


def find_run(client: SyncPrefectClient, key: str) -> RunInfo | None:
    """The run with that idempotency key; `None` if there is none (the server's database may have been deleted)."""
    return find_runs(client, [key]).get(key)


def find_runs(client: SyncPrefectClient, keys: Sequence[str]) -> Mapping[str, RunInfo]:
    """The existing runs with these idempotency keys, by key."""
    found: dict[str, RunInfo] = {}
    for start in range(0, len(keys), PAGE):
        asked = list(keys[start : start + PAGE])
        chosen = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=asked))
        found |= {run.idempotency_key or "": info_of(run) for run in client.read_flow_runs(flow_run_filter=chosen)}
    return found


def taken_up(client: SyncPrefectClient, workspace_id: str) -> tuple[RunInfo, ...]:
    """Runs of the deployments of *workspace_id* that a process has started and not finished."""
    return _in_state(client, workspace_id, FlowRunFilter(state=_types(*TAKEN_UP)))


def crashed(client: SyncPrefectClient, workspace_id: str, flow: str) -> tuple[RunInfo, ...]:
    """Runs of that flow for the deployments of *workspace_id* whose process died."""
    return _in_state(client, workspace_id, FlowRunFilter(state=_types(StateType.CRASHED)), with_flow_name(flow))


def suspended_runs(client: SyncPrefectClient, workspace_id: str, *tags: str) -> tuple[RunInfo, ...]:
    """Runs of the deployments of *workspace_id* with these tags that wait for an answer."""
    chosen = FlowRunFilter(state=_types(StateType.PAUSED), tags=FlowRunFilterTags(all_=list(tags)) if tags else None)
    return _in_state(client, workspace_id, chosen)


def of_flow(client: SyncPrefectClient, workspace_id: str, flow: str) -> tuple[RunInfo, ...]:
    """The newest 200 runs of that flow for the deployments of *workspace_id*, in any state."""
    found = client.read_flow_runs(
        flow_filter=with_flow_name(flow),
        deployment_filter=of_repository(workspace_id),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
    )
    return tuple(map(info_of, found))


def _types(*types: StateType) -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types)))


def _in_state(
    client: SyncPrefectClient, workspace_id: str, chosen: FlowRunFilter, of: FlowFilter | None = None
) -> tuple[RunInfo, ...]:
    """All matching runs, page by page, in an order that is independent of state changes."""
    found: list[FlowRun] = []
    while len(found) % PAGE == 0:
        page = client.read_flow_runs(
            flow_filter=of,
            deployment_filter=of_repository(workspace_id),
            flow_run_filter=chosen,
            sort=FlowRunSort.ID_DESC,
            offset=len(found),
        )
        found += page
        if not page:
            break
    return tuple(map(info_of, found))


def with_flow_name(flow: str) -> FlowFilter:
    """What belongs to that flow."""
    return FlowFilter(name=FlowFilterName(any_=[flow]))


def of_repository(workspace_id: str) -> DeploymentFilter:
    """The deployments of that repository."""
    return DeploymentFilter(tags=DeploymentFilterTags(all_=[owner_tag(workspace_id)]))


def mark_ended(client: SyncPrefectClient, run: RunInfo, reason: str) -> None:
    """Mark a run whose process is gone as crashed, or as cancelled if its cancellation was in progress."""
    ended = Cancelled if run.cancelled else Crashed
    client.set_flow_run_state(run.id, ended(message=reason), force=True)


def url_for(run_id: UUID) -> str:
    """The run's page, in the UI version that shows the Resume button."""
    return page_of_run(get_current_settings().ui_url, run_id)


def info_of(run: FlowRun) -> RunInfo:
    """The values that we need of a run."""
    return RunInfo(
        id=run.id,
        name=run.name,
        state=run.state_type.value if run.state_type else "",
        state_name=run.state_name or "",
        message=(run.state.message if run.state else None) or "",
        parameters=run.parameters,
        since=run.state.timestamp if run.state else None,
    )


# --- Waiting for another run by polling the log


Found = TypeVar("Found")

LOOK_AT_LOG_EVERY = 0.1
ASK_EVERY = 2.0


async def wait_for(look: Callable[[], Found | None], run_id: UUID) -> Found | RunInfo:
    """Return what *look* finds, or the run if it ended or was suspended without that.

    *look* reads the log: it is called in a thread, often, and once more after the run has stopped.
    """
    ask_at = time.monotonic() + ASK_EVERY
    while (found := await asyncio.to_thread(look)) is None:
        if time.monotonic() >= ask_at:
            run = await asyncio.to_thread(_read, run_id)
            if run.final or run.state == "PAUSED":
                found = await asyncio.to_thread(look)
                return run if found is None else found
            ask_at = time.monotonic() + ASK_EVERY
        await asyncio.sleep(LOOK_AT_LOG_EVERY)
    return found


def _read(run_id: UUID) -> RunInfo:
    with connect() as client:
        return state(client, run_id)
