"""Serve deployments from a child process: the parent's handle, registration, and the child's own program.

Why a child and not a thread of the command: docs/decisions/0003-prefect-local-mode.md.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import prefect.runner._starter_engine as starter
from prefect.client.orchestration import PrefectClient, SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType, VersionInfo
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.settings import get_current_settings
from prefect.utilities.processutils import run_process

from irontree.app import App, Origin
from irontree.domain.ids import slugify
from irontree.domain.settings import Automations
from irontree.errors import IrontreeError, ServerUnavailable, in_words
from irontree.flows.runs.recovery import take_up
from irontree.flows.runs.runs import of_repository, tags, url_for
from irontree.flows.runs.starting import OnServer
from irontree.flows.serve.child import OF_MANY, Child
from irontree.flows.serve.documents import about_documents, documents_in
from irontree.flows.serve.events import wait_no_longer
from irontree.flows.serve.forking import FORKS, ForkServer
from irontree.flows.serve.holding import clear_up
from irontree.flows.serve.naming import named, retire
from irontree.flows.serve.starts import Starts
from irontree.flows.serve.taken import TEMPLATE, own_worker, serve_only
from irontree.flows.serve.waking import look_when_woken
from irontree.flows.server.programs import RUNNER, WAKE, end_with, keep_short
from irontree.http_client import Unreachable
from irontree.tasks.stages import app_of

# --- The parent's handle on the child


LIMIT = 4
"""Flow processes per repository: the loop, the issue it waits for, one that was answered meanwhile, and one in which a
member of the team is asked: while that waits for a step, it keeps none of the others from its place."""
By = Literal["runner", "worker"]
"""A Prefect runner takes the runs of one repository; a worker those of many. A terminal orders a runner by itself."""


@dataclass(frozen=True, slots=True)
class Served:
    """One deployment: a flow by its module path, and the default parameters of its runs.

    Where *owner* is a workspace id, its runs are in the queue of that name, and *name* is as people read it.
    """

    entrypoint: str
    name: str
    owner: str = ""
    description: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    slug: str | None = None
    """The name of the schedule, if any."""
    scheduled: Mapping[str, Any] = field(default_factory=dict)
    """Additional parameters of scheduled runs."""
    tags: tuple[str, ...] = ()
    asked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What a page says about a parameter of this deployment beyond what the flow says, as JSON schema."""


def queue_of(served: Mapping[str, Any]) -> str:
    """The queue of the runs of *served* (as `Served`): two folders on one server do not take each other's (R21)."""
    return str(served["owner"] or served["name"])


class Serving:
    """Executes the runs of *deployments*, each in its own process, from construction until `stop`.

    Raises ServerUnavailable if the process that does so cannot be started.
    """

    def __init__(
        self,
        deployments: Sequence[Served],
        *,
        environment: Mapping[str, str],
        folder: Path,
        by: By = "runner",
    ) -> None:
        name = queue_of(asdict(deployments[0])) if by == "runner" else OF_MANY
        self._child = Child(name, environment=environment, folder=folder)
        try:
            self._child.order({"limit": LIMIT, "by": by, "deployments": [asdict(served) for served in deployments]})
        except ServerUnavailable:
            self.stop()
            raise

    def wait_ready(self, timeout: float = 60) -> dict[str, str]:
        """Wait until the deployments are registered; returns ids by full name (`flow/deployment`). Call it only once.

        Raises ServerUnavailable if the child ends first, or is silent for *timeout* seconds and is then ended.
        """
        deployments: dict[str, str] = self._child.answer(timeout)
        return deployments

    def alive(self) -> bool:
        """`False` if the child has ended: its runs are dead then, and a new one can be started."""
        return self._child.alive()

    def how_it_ended(self) -> str:
        """How the child ended, in words."""
        return self._child.how_it_ended()

    def finish(self) -> None:
        """Ask the flows to stop after their current step (first Ctrl-C); they check `finish_asked`."""
        self._child.finish()

    def stop(self) -> None:
        """End the child and all flow processes at once and clean up; the server is not told."""
        self._child.stop()


# --- The deployments of a repository (protocol, Runs)


SCHEDULES = {"reconcile": ("0 3 * * *", "nightly"), "janitor": ("*/5 * * * *", "five-minutes")}
"""Cron and slug: every night, and every five minutes; the same as in prefect.yaml."""
PROCESSES = "process"
POOL = "irontree"
"""The work pool; the queue of a repository is named by the workspace id (R21)."""
FLOWS = {
    "intake": "Show what a requirement document would become, and wait for its approval.",
    "issue": "Bring one issue as far as its log allows; the run that waits when a decision is due.",
    "loop": "Work through the tasks of a loop, one issue's run after the other.",
    "reconcile": "Compare the log with itself and with the forge, every night.",
    "janitor": "Take up what a crash left, every five minutes.",
}
"""Each flow with its description in the UI, shown after the repository's folder; the same as in prefect.yaml."""
TEAM_FLOWS = {"agent_request": "Ask a member of the team what somebody wants to know, and post its answer."}
"""The same, where a team works in the forge (`toolchain:`)."""


NIGHTLY = ("30 1 * * *", "nightly")
"""Cron and slug of `intake`, used if `automations.nightly` is set."""
SLUGS = frozenset(slug for _, slug in (*SCHEDULES.values(), NIGHTLY))
"""Slugs of our own schedules: users may have added others."""


def nightly_parameters(wanted: Automations) -> dict[str, str]:
    """The parameters of the nightly `intake`; empty if it is not configured."""
    return {"document": wanted.nightly} if wanted.nightly else {}


def deployments_of(app: App) -> tuple[Served, ...]:
    """The deployments of *app*, named after flow and folder, with the repository as parameter."""
    nightly = nightly_parameters(app.preferences().automations)
    schedules = SCHEDULES | ({"intake": NIGHTLY} if nightly else {})
    flows = FLOWS | (TEAM_FLOWS if app.preferences().has_toolchain else {})
    documents = documents_in(app.repository.root)
    given = {"intake": {"document": documents[0]}} if len(documents) == 1 else {}
    return tuple(
        Served(
            entrypoint=f"irontree.flows.{flow}.{flow}",
            name=f"{flow}-{slugify(app.repository.root.name) or app.repository.id[:6]}",
            owner=app.repository.id,
            description=f"{app.repository.root}: {description}",
            parameters={"repository": str(app.repository.root), **given.get(flow, {})},
            cron=schedules[flow][0] if flow in schedules else None,
            slug=schedules[flow][1] if flow in schedules else None,
            scheduled=nightly if flow == "intake" else {},
            tags=tuple(tags(app)),
            asked={"document": about_documents(documents), "branch": {"title": "Branch"}} if flow == "intake" else {},
        )
        for flow, description in flows.items()
    )


# --- Registering deployments and queues on the server


NOT_SERVED = "not served any more: "
"""Precedes the folder in the description of a queue that we closed: keeps the limit that a user set."""

AddDeployment = Callable[[RunnerDeployment], Awaitable[UUID]]


async def register(
    deployments: Sequence[Mapping[str, Any]], *, queue_limit: int, add: AddDeployment, reopen: bool = False
) -> dict[str, UUID]:
    """Register *deployments* (as `Served`), each in its queue; returns ids by full name.

    The same for runners and workers: a run keeps the queue that its deployment had when it was created. *reopen*, for
    workers, opens queues that `close_queue` closed. A runner asks by deployment and needs none; if the queue were open
    then, a worker that let go of the repository would take its runs.
    """
    async with get_client() as client:
        await _ensure_pool(client)
        for queue, repository in {
            queue_of(served): served["parameters"].get("repository", "") for served in deployments
        }.items():
            await _ensure_queue(client, queue, queue_limit, str(repository), reopen=reopen)
        made, ids = [], {}
        for wanted in deployments:  # one after the other: two repositories may want the same name
            made.append(served := await named(client, wanted))
            deployment = _deployment(served)
            ids[f"{deployment.flow_name}/{deployment.name}"] = await add(deployment)
    serve_only({str(deployment_id): served for served, deployment_id in zip(made, ids.values(), strict=True)})
    async with get_client() as client:
        await retire(client, made, ids)
        await drop_missed(client, ids.values())
    return ids


async def _ensure_pool(client: PrefectClient) -> None:
    """Have the pool, with a job template of constants: Prefect's own workers go by it."""
    template = dict(TEMPLATE)
    try:
        await client.create_work_pool(WorkPoolCreate(name=POOL, type=PROCESSES, base_job_template=template))
    except ObjectAlreadyExists:
        if (await client.read_work_pool(POOL)).base_job_template != template:
            await client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template))


async def _ensure_queue(client: PrefectClient, name: str, limit: int, repository: str, *, reopen: bool) -> None:
    """Create the queue, described by the repository; *reopen* one that we closed."""
    try:
        await client.create_work_queue(name, description=repository, work_pool_name=POOL, concurrency_limit=limit)
    except ObjectAlreadyExists:
        if not reopen:
            return
        queue = await client.read_work_queue_by_name(name, work_pool_name=POOL)
        if (queue.description or "").startswith(NOT_SERVED):
            await client.update_work_queue(queue.id, concurrency_limit=limit, description=repository)


def close_queue(client: SyncPrefectClient, name: str, repository: str) -> None:
    """Keep workers from taking runs of this queue until a worker of ours serves its repository again.

    Its limit becomes 0. Pausing it would do the same, but Prefect's server does not answer that with SQLite.
    """
    _set_queue(client, name, 0, f"{NOT_SERVED}{repository}")


def open_queue(client: SyncPrefectClient, name: str, repository: str, limit: int) -> None:
    """Let workers take the runs of this queue again, *limit* at a time, after `close_queue`."""
    _set_queue(client, name, limit, repository)


def _set_queue(client: SyncPrefectClient, name: str, limit: int, description: str) -> None:
    with suppress(ObjectNotFound):  # no worker of ours ever served it: no run is in a queue, and registering makes one
        queue = client.read_work_queue_by_name(name, work_pool_name=POOL)
        client.update_work_queue(queue.id, concurrency_limit=limit, description=description)


def drop_schedules(client: SyncPrefectClient, workspace_id: str) -> None:
    """Remove the schedules, whose runs no process would take; registering creates them again.

    The runs that they created are removed too. A schedule that a user paused creates none, and is kept.
    """
    for deployment in client.read_deployments(deployment_filter=of_repository(workspace_id)):
        for schedule in client.read_deployment_schedules(deployment.id):
            if schedule.active and schedule.slug in SLUGS:
                client.delete_deployment_schedule(deployment.id, schedule.id)


class _Deployment(RunnerDeployment):
    """One whose version is what its flow says.

    Prefect asks git seven times about the folder that it is in, and tells the server the address of its remote, in
    which a token may be.
    """

    def _get_deployment_version_info(self, version_type: Any = None) -> VersionInfo:  # noqa: ARG002
        return VersionInfo(type="prefect:simple", version=self.version or "")


def _deployment(served: Mapping[str, Any]) -> RunnerDeployment:
    """A deployment with its schedule, which has a slug: `prefect deploy` gives the same one the same slug.

    A page asks for no repository: it is that of the deployment.
    """
    cron, slug, given = served["cron"], served["slug"], dict(served["scheduled"])
    ours = ("cron", "slug", "scheduled", "owner", "asked")
    made = _Deployment.from_entrypoint(
        **{key: value for key, value in served.items() if key not in ours},
        work_pool_name=POOL,
        work_queue_name=queue_of(served),
        job_variables={},
        schedules=[Cron(cron, timezone="UTC", slug=slug, parameters=given)] if cron else None,
    )
    asked = made._parameter_openapi_schema  # noqa: SLF001  (it cannot be given)
    asked.required = [name for name in asked.required if name != "repository"]
    asked.properties = {
        name: {**shown, **served["asked"].get(name, {})}
        for name, shown in asked.properties.items()
        if name != "repository"
    }
    return made


async def drop_missed(client: PrefectClient, deployments: Collection[UUID]) -> None:
    """Of the scheduled runs that were missed, keep only the latest per deployment: one janitor is enough."""
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


# --- The child's program


TIDY_EVERY = 60.0
REGISTERED_EVERY = 2.0
NEEDED_AT_ONCE = ("irontree.flows.loop.loop", "irontree.flows.issue.issue")
"""What a terminal waits for."""
PREFETCH_SECONDS = 1.0
"""Kept short: a run taken before its time occupies one of the few slots, or begins before its time."""


def run_child() -> None:
    """Serve the deployments described on stdin until killed; the parent's pid is the first argument.

    The whole process group ends with the parent, and each flow process with us.
    """
    forks = ForkServer() if FORKS else None
    end_with(int(sys.argv[1]), lambda: os.killpg(0, signal.SIGKILL))
    os.environ[RUNNER] = str(os.getpid())
    importlib.import_module("prefect.runner.server")  # a runner does so as it starts, and somebody waits for it then
    if not (text := sys.stdin.read()):  # whoever started us has ended without an order
        return
    order = json.loads(text)
    tempfile.tempdir = order["folder"]  # the scratch folder; the parent removes it
    keep_short(Path(order["log"]))
    asyncio.run(_execute(order, forks))


async def _execute(order: Mapping[str, Any], forks: ForkServer | None) -> None:
    wait_no_longer()
    given = [order.get("repository"), *(it["parameters"].get("repository") for it in order.get("deployments", ()))]
    runs = OnServer([Path(root) for root in dict.fromkeys(given) if root])
    starts = Starts(forks.run_process if forks else run_process, runs, Path(order["folder"]))
    starter.run_process = starts.run_process  # type: ignore[attr-defined, assignment]
    async with asyncio.TaskGroup() as together:
        if forks:
            together.create_task(await forks.use())
        together.create_task(_serve(order))


def _serve(order: Mapping[str, Any]) -> Coroutine[Any, Any, None]:
    match order["by"]:
        case "terminal":
            app = app_of(order["repository"], origin=Origin("irontree"))
            begin = partial(_begin, app, loop_id=order["loop"], private=order["private"])
            return _run_runner([asdict(served) for served in deployments_of(app)], LIMIT, begin)
        case "worker":
            return _run_worker(order["deployments"], order["limit"])
        case _:
            return _run_runner(order["deployments"], order["limit"])


def _begin(app: App, *, loop_id: str | None, private: bool) -> Mapping[str, str]:
    """Clear up, then set the terminal's loop going: the page of its run, or why that cannot be."""
    try:
        clear_up(app, private=private)
        run = take_up(app, loop_id) if loop_id else None
    except IrontreeError as error:
        return {"refused": in_words(error)}
    return {"page": url_for(run.id) if run else ""}


async def _run_runner(
    deployments: list[dict[str, Any]], limit: int, begin: Callable[[], Mapping[str, str]] | None = None
) -> None:
    """Execute their runs, at most *limit* at a time.

    *begin* is called once those of loops and issues are registered, and the parent told what it says; the others
    follow when the server has less to do.
    """
    runner = Runner(
        query_seconds=get_current_settings().worker.query_seconds,
        prefetch_seconds=PREFETCH_SECONDS,
        limit=limit,
        pause_on_shutdown=False,
    )
    add = partial(register, queue_limit=limit, add=runner.aadd_deployment)
    ids = await add([it for it in deployments if not begin or it["entrypoint"] in NEEDED_AT_ONCE])
    _report(await asyncio.to_thread(begin) if begin else ids)
    async with asyncio.TaskGroup() as together:
        together.create_task(_every(REGISTERED_EVERY, partial(_stay_registered, deployments, ids, add)))
        together.create_task(look_when_woken(Path(os.environ[WAKE]), partial(_look, runner)))
        await runner.start()


async def _look(runner: Runner) -> None:
    """Take up the runs that are due, beside the looks that the runner takes from time to time."""
    if not runner.started:  # it has nothing to look with yet; its own first look follows at once
        return
    with suppress(Unreachable, PrefectHTTPStatusError):
        await runner._get_and_submit_flow_runs()  # type: ignore[no-untyped-call]  # noqa: SLF001


async def _run_worker(deployments: list[dict[str, Any]], limit: int) -> None:
    """Execute the runs in their queues, at most *limit* per queue, which the queues enforce."""
    add = partial(register, queue_limit=limit, add=RunnerDeployment.aapply, reopen=True)
    _report(ids := await add(deployments))
    queues = sorted({queue_of(served) for served in deployments})
    worker = own_worker(POOL, work_queues=queues, name=f"irontree@{platform.node()}", prefetch_seconds=PREFETCH_SECONDS)
    async with asyncio.TaskGroup() as together:
        # Scheduled runs would pile up while a loop and its issues occupy the slots for hours.
        together.create_task(_every(TIDY_EVERY, lambda client: drop_missed(client, ids.values())))
        together.create_task(_every(REGISTERED_EVERY, partial(_stay_registered, deployments, ids, add)))
        await worker.start()


def _report(answer: Mapping[str, Any]) -> None:
    """Tell the parent that we are ready, with that answer; from here on stdout is the log, for what flows print."""
    sys.stdout.write(json.dumps(answer, default=str) + "\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


async def _every(seconds: float, do: Callable[[PrefectClient], Awaitable[None]]) -> None:
    """Do it from time to time for ever, also after the server was away."""
    while True:
        await asyncio.sleep(seconds)
        with suppress(Unreachable, PrefectHTTPStatusError):
            async with get_client() as client:
                await do(client)


async def _stay_registered(
    deployments: Sequence[Mapping[str, Any]],
    ids: dict[str, UUID],
    add: Callable[[Sequence[Mapping[str, Any]]], Awaitable[dict[str, UUID]]],
    client: PrefectClient,
) -> None:
    """Register those that are not yet, and all anew on a server whose database was made anew; *ids* are then theirs."""
    with suppress(ObjectNotFound):
        await client.read_deployment(next(iter(ids.values())))
        if len(ids) == len(deployments):
            return
    ids.update(await add(deployments))


if __name__ == "__main__":
    run_child()
