"""Flow runs of ours and bare ones, as a client sees them. Importing this imports Prefect: adopt its settings first."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.deployments.runner import RunnerDeployment

from benchmarks.programs import HERE
from benchmarks.projects import publish, publish_task
from irontree.app import App
from irontree.flows.runs import forms, runs
from irontree.flows.runs.recovery import start_issue, start_loop
from irontree.flows.runs.runs import issue_key
from irontree.flows.serve.serving import Served, Serving, deployments_of
from irontree.services.loops.loop import read_loop
from irontree.services.record import read_world

BARE = "bare"
BARE_LOOP = Served("benchmarks.baselines.bare_flows.loop", BARE)
BARE_ISSUE = Served("benchmarks.baselines.bare_flows.issue", BARE)
BARE_QUESTION = Served("benchmarks.baselines.bare_flows.question", BARE)
LOOK_EVERY = 0.2
LOOK_OFTEN = 0.02
PATIENCE = 180.0
"""Seconds."""
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds by the server's own records: from the loop run's creation to its end, and from creation to `Running`."""

    total: float
    dispatch: float
    """The mean of the two runs."""


def ours(app: App) -> tuple[Served, ...]:
    """The deployments of a repository."""
    return deployments_of(app)


@contextmanager
def served(deployments: Sequence[Served], *, environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Their runs are taken up meanwhile."""
    serving = Serving(deployments, environment=environment, folder=folder)
    try:
        serving.wait_ready()
        yield
    finally:
        serving.stop()


@contextmanager
def served_by_stock(deployments: Sequence[Served], *, environment: Mapping[str, str]) -> Iterator[None]:
    """The same by Prefect's runner as it comes, which asks every second."""
    wanted = [
        {"entrypoint": it.entrypoint, "name": it.name, "parameters": dict(it.parameters), "tags": list(it.tags)}
        for it in deployments
    ]
    command = [sys.executable, "-m", "benchmarks.baselines.stock_runner", json.dumps(wanted)]
    with subprocess.Popen(
        command,
        env={**environment, "PREFECT_WORKER_QUERY_SECONDS": "1"},
        cwd=HERE.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as runner:
        try:
            if runner.stdout is None or runner.stdout.readline() != b"ready\n":
                raise RuntimeError("Prefect's runner did not start")
            yield
        finally:
            runner.kill()


def time_ours(app: App, title: str) -> Timing:
    """One more task of *app*'s repository, worked through by a loop run and an issue run."""
    loop_id = publish_task(app, title)
    with runs.connect() as client:
        loop = _finished(client, start_loop(app, loop_id).id)
        state = next(s for s in read_world(app).states.values() if s.task_key == title)
        if not state.done:
            raise RuntimeError(f"{title} is {state.phase}: {loop.state}")
        return _timing(loop, _by_key(client, issue_key(app, state)))


def time_bare() -> Timing:
    """One bare loop run and its bare issue run."""
    key = str(uuid4())
    with runs.connect() as client:
        parameters = {"deployment": f"bare-issue/{BARE}", "issue_key": key}
        made = runs.ensure_run(
            client, client.read_deployment_by_name(f"bare-loop/{BARE}").id, key=str(uuid4()), parameters=parameters
        )
        loop = _finished(client, made.id)
        return _timing(loop, _by_key(client, key))


def time_resume_ours(app: App, title: str) -> float:
    """Seconds from the answer of a form to its event in the log: one task that a person has to accept."""
    loop_id = publish(app, title, (title,), judged=True)
    with runs.connect() as client:
        start_loop(app, loop_id)
        state = _once(lambda: next((s for s in read_world(app).states.values() if s.task_key == title), None))
        asking = _once(lambda: runs.find_run(client, issue_key(app, state)))
        form = _once(lambda: forms.open_question(client, asking.id))
        before, began = read_world(app).state(state.issue_number).sequence, time.time()
        payload = {"decision": form.choices[0], "approver": "benchmark", "note": ""}
        forms.answer_form(client, asking.id, payload, key=form.key)
        _once(lambda: read_world(app).state(state.issue_number).sequence > before)
        seconds = time.time() - began
        _once(lambda: read_loop(app, loop_id).entity.status == "completed")
        _finished(client, asking.id)
    return seconds


def time_resume_bare() -> float:
    """Seconds from the answer of a bare form to the end of its run, which does nothing more."""
    with runs.connect() as client:
        made = runs.ensure_run(
            client, client.read_deployment_by_name(f"bare-question/{BARE}").id, key=str(uuid4()), parameters={}
        )
        form = _once(lambda: forms.open_question(client, made.id))
        began = time.time()
        forms.answer_form(client, made.id, {"decision": "yes"}, key=form.key)
        ended = _finished(client, made.id).end_time
    return ended.timestamp() - began if ended else float("nan")


def time_tasks(apps: Sequence[App], name: str, tasks: int) -> float:
    """Seconds for *tasks* tasks in each repository, all of them at the same time."""
    titles = [f"{name}-{number}" for number in range(tasks)]
    loops = [(app, publish(app, name, titles)) for app in apps]
    began = time.time()
    started = [start_loop(app, loop_id).id for app, loop_id in loops]
    with runs.connect() as client:
        ended = [_finished(client, run_id).end_time for run_id in started]
    return max(moment.timestamp() for moment in ended if moment) - began


def make_issue_run(app: App, title: str) -> UUID:
    """A scheduled run of the issue of one more task; nobody serves it."""
    loop_id = publish_task(app, title)
    return start_issue(app, read_world(app).states[title], loop_id).id


def make_bare_issue_run() -> UUID:
    """A scheduled run of a bare issue; nobody serves it."""
    with runs.connect() as client:
        return runs.ensure_run(
            client, client.read_deployment_by_name(f"bare-issue/{BARE}").id, key=str(uuid4()), parameters={}
        ).id


def register(deployment: Served) -> None:
    """Make the deployment known to the server without serving it."""
    RunnerDeployment.from_entrypoint(
        entrypoint=deployment.entrypoint, name=deployment.name, parameters=dict(deployment.parameters)
    ).apply()


def require_completed(run_id: UUID) -> None:
    """Raise RuntimeError unless the run came to a good end."""
    with runs.connect() as client:
        _finished(client, run_id)


def _once(look: Callable[[], Found | None]) -> Found:
    """What *look* finds, once it finds something; raises RuntimeError if that takes minutes."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > deadline:
            raise RuntimeError("what was waited for did not happen")
        time.sleep(LOOK_OFTEN)
    return found


def _finished(client: SyncPrefectClient, run_id: UUID) -> FlowRun:
    while not ((run := client.read_flow_run(run_id)).state and run.state.is_final()):
        time.sleep(LOOK_EVERY)
    if not run.state.is_completed():
        raise RuntimeError(f"flow run {run.name} ended as {run.state}")
    return run


def _by_key(client: SyncPrefectClient, key: str) -> FlowRun:
    found = runs.find_run(client, key)
    if found is None:
        raise RuntimeError(f"there is no flow run {key}")
    return _finished(client, found.id)


def _timing(loop: FlowRun, issue: FlowRun) -> Timing:
    return Timing(
        total=_seconds(loop.created, loop.end_time),
        dispatch=statistics.mean(_seconds(run.created, run.start_time) for run in (loop, issue)),
    )


def _seconds(begin: datetime | None, end: datetime | None) -> float:
    if begin is None or end is None:
        raise RuntimeError("the server does not know when the run began and ended")
    return (end - begin).total_seconds()
