"""Served deployments: runs are taken up by processes that end with whoever serves them, and go on after it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId, FlowRunFilterExpectedStartTime
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Scheduled

from irontree.errors import ServerUnavailable
from irontree.flows.runs import runs
from irontree.flows.runs.forms import answer_form, open_question
from irontree.flows.serve.forking import FLOW, FORK_SERVER, FORKS
from irontree.flows.serve.serving import POOL, Served, Serving, close_queue, drop_missed
from tests.prefect.harness import logs as stored_logs
from tests.prefect.sample_flows import note

FLOWS = "tests.prefect.sample_flows"
PATIENCE = 40
TOKEN = "very-secret-4711"


@pytest.fixture(scope="module")
def workspace_id():
    return f"ws-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def serve(state_folder, environment, workspace_id):
    """Serve the sample flows."""
    names = ("question", "note", "long_step", "short_steps")
    tags = (runs.owner_tag(workspace_id),)
    served, caller = (
        [Served(f"{FLOWS}.{name}", workspace_id, tags=tags) for name in names],
        {**environment, "GITEA_TOKEN": TOKEN},
    )

    @contextmanager
    def serve() -> Iterator[Serving]:
        serving = Serving(served, environment=caller, folder=state_folder)
        try:
            yield serving
        finally:
            serving.stop()

    return serve


def wait_until(holds):
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return found


def start(client, workspace_id, flow, **parameters):
    key = uuid.uuid4().hex
    deployment = client.read_deployment_by_name(f"{flow}/{workspace_id}").id
    return runs.ensure_run(client, deployment, key=key, parameters=parameters).id


def reaches(client, run_id, name):
    return wait_until(lambda: (run := runs.state(client, run_id)).state_name == name and run)


def flow_processes(serving) -> list[psutil.Process]:
    return psutil.Process(serving._child._program.pid).children(recursive=True)


def shows(process: psutil.Process) -> str:
    """What others can see of it: nothing when it has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return f"{process.cmdline()} {process.environ()}"
    return ""


def gone(processes) -> bool:
    return not psutil.wait_procs(processes, timeout=10)[1]


def test_a_suspended_run_goes_on_after_the_runner_was_killed_and_its_flows_with_it(
    client, workspace_id, serve, request, tmp_path
):
    """...and what its processes logged on the way has no line above INFO.

    A worker that let go of the queue meanwhile, and still names it, gets none of its runs: it stays closed.
    Neither runner nor flows show the token.
    """
    with serve() as serving:
        assert f"question/{workspace_id}" in serving.wait_ready()
        asking = start(client, workspace_id, "question")
        working = start(client, workspace_id, "short-steps", folder=str(tmp_path))
        question = wait_until(lambda: open_question(client, asking))
        wait_until((tmp_path / "started").exists)
        processes = flow_processes(serving)
        assert not [
            shown for shown in map(shows, [psutil.Process(serving._child._program.pid), *processes]) if TOKEN in shown
        ]
        assert (tmp_path / "started").read_text() == f"{TOKEN} 0", (
            "who calls the forge is told it by the runner's parent"
        )
        os.kill(serving._child._program.pid, signal.SIGKILL)
        assert gone(processes)
        assert not serving.alive()
    assert mark_lost(client, workspace_id) == [working]
    answer_form(client, asking, {"decision": "accept", "approver": "Ada"}, key=question.key)
    close_queue(client, workspace_id, "its folder")
    request.getfixturevalue("serving")
    assert reaches(client, asking, "Answered").message == "accept by Ada (halt-1)"
    assert client.read_work_queue_by_name(workspace_id, work_pool_name=POOL).concurrency_limit == 0
    assert [text for level, text in stored_logs(client, asking) if level > logging.INFO] == []


def mark_lost(client, workspace_id):
    """Say of the runs that were taken up that they ended: the sample flows take no locks that would tell."""
    lost = runs.taken_up(client, workspace_id)
    for run in lost:
        runs.mark_ended(client, run, "killed")
    return [run.id for run in lost]


@pytest.fixture(scope="module")
def serving(serve):
    """The sample flows, served for tests that leave the process as it is."""
    with serve() as serving:
        serving.wait_ready()
        yield serving


def test_asked_to_finish_a_flow_stops_after_its_step(client, workspace_id, serving, tmp_path):
    run_id = start(client, workspace_id, "short-steps", folder=str(tmp_path))
    wait_until((tmp_path / "started").exists)
    serving.finish()
    halted = reaches(client, run_id, "Halted")
    assert (halted.state, halted.message) == ("COMPLETED", "stopped after this step")


def test_cancelling_a_run_reaches_the_thread_that_does_its_work(client, workspace_id, serving, tmp_path):
    run_id = start(client, workspace_id, "long-step", folder=str(tmp_path))
    wait_until((tmp_path / "started").exists)
    runs.cancel(client, run_id)
    reaches(client, run_id, "Cancelled")
    assert (tmp_path / "stopped").exists()


def test_stop_ends_every_process_at_once(client, workspace_id, serving, tmp_path):
    """The last of what *serving* does."""
    start(client, workspace_id, "long-step", folder=str(tmp_path))
    wait_until((tmp_path / "started").exists)
    processes = flow_processes(serving)
    serving.stop()
    assert processes
    assert gone(processes)
    assert not serving.alive()
    mark_lost(client, workspace_id)


@pytest.mark.skipif(not FORKS, reason="here each flow process is a Python of its own")
def test_without_the_fork_server_its_flows_end_and_so_does_the_serving(client, workspace_id, serve, tmp_path):
    """Nothing could be started any more: who asked for the serving is told by its end."""
    with serve() as serving:
        serving.wait_ready()
        start(client, workspace_id, "long-step", folder=str(tmp_path))
        wait_until((tmp_path / "started").exists)
        [fork_server] = psutil.Process(serving._child._program.pid).children()
        [working] = fork_server.children()
        assert (fork_server.name(), working.name()) == (FORK_SERVER, FLOW)
        fork_server.kill()
        assert gone([working])
        wait_until(lambda: not serving.alive())
    mark_lost(client, workspace_id)


def test_of_the_schedules_that_were_missed_one_run_is_made_up_for(client, workspace_id):
    """A laptop that slept for a day does not run its janitor three hundred times."""
    deployment = note.to_deployment(f"{workspace_id}-night", cron="0 * * * *").apply()
    past = {"start_time": str(moment(hours=-6)), "end_time": str(moment(hours=0)), "min_runs": 5}
    client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployment}, json=past)
    by_hand = client.create_flow_run_from_deployment(
        deployment, state=Scheduled(scheduled_time=moment(hours=-9)), parameters={"folder": "."}
    )
    asyncio.run(drop_missed_of(deployment))
    assert [run.id == by_hand.id for run in waiting(client, deployment)] == [True, False]


def moment(*, hours: int) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


async def drop_missed_of(deployment):
    async with get_client() as client:
        await drop_missed(client, [deployment])


def waiting(client, deployment):
    chosen = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=moment(hours=0)),
    )
    return client.read_flow_runs(flow_run_filter=chosen, sort=FlowRunSort.EXPECTED_START_TIME_ASC)


def test_what_cannot_be_served_is_said_with_its_reason(state_folder, environment):
    serving = Serving([Served("tests.prefect.sample_flows.nothing", "x")], environment=environment, folder=state_folder)
    with pytest.raises(ServerUnavailable, match="nothing"):
        serving.wait_ready()


def test_who_does_not_get_ready_in_time_is_ended(state_folder, environment):
    """Nobody would end it later: the next try has a child of its own."""
    serving = Serving([Served(f"{FLOWS}.note", "late")], environment=environment, folder=state_folder)
    with pytest.raises(ServerUnavailable):
        serving.wait_ready(timeout=0)
    assert not serving.alive()
