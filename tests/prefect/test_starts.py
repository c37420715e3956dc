"""A run whose process ends before its flow begins is started again at once, by runner and worker alike."""

from __future__ import annotations

import os
import signal
import time
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import psutil
import pytest
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Pending, Running, Scheduled

from irontree.flows.runs import runs
from irontree.flows.runs.starting import AGAIN, OnServer, put
from irontree.flows.serve.serving import Served, Serving, deployments_of
from irontree.flows.serve.starts import PAUSES
from irontree.store.layout import create
from irontree.store.locks import FileLock
from tests.prefect.harness import deploy
from tests.prefect.sample_flows import note
from tests.prefect.stumbling_flow import STUMBLES
from tests.prefect.toys import make_toy, wait_until
from tests.support.store import StillClock

PATIENCE = 60
RECOVERY = 60
"""Seconds after which what serves looks for runs that died."""


@pytest.fixture(scope="module", params=["runner", "worker"])
def served(request, state_folder, environment, tmp_path_factory):
    """The file that says how often it stumbles, and the name of its deployment."""
    folder = tmp_path_factory.mktemp("stumbling")
    with stumbling(folder, state_folder, environment, request.param) as (_, name):
        yield folder / "plan", name


@contextmanager
def stumbling(folder, state_folder, environment, by):
    """Serve the flow that stumbles as `plan` in *folder* says; what serves it, and the name of its deployment."""
    name, plan = f"stumbling-{uuid.uuid4().hex[:8]}", folder / "plan"
    plan.write_text("")
    serving = Serving(
        [Served("tests.prefect.stumbling_flow.stumbling", name, tags=(runs.owner_tag(name),))],
        environment={**environment, STUMBLES: str(plan)},
        folder=state_folder,
        by=by,
    )
    try:
        serving.wait_ready()
        yield serving, name
    finally:
        serving.stop()


def states_of(client, run_id):
    """The states of the run in order."""
    return sorted(client.read_flow_run_states(run_id), key=lambda state: state.timestamp)


def test_a_run_whose_first_two_processes_end_before_its_flow_begins_is_done_in_seconds(served, client):
    plan, name = served
    plan.write_text("ek")
    began = time.monotonic()
    deployment = client.read_deployment_by_name(f"stumbling/{name}").id
    run_id = runs.ensure_run(client, deployment, key=uuid.uuid4().hex, parameters={}).id
    while (found := runs.state(client, run_id)).state_name != "Walked":
        assert time.monotonic() - began < RECOVERY, found
        time.sleep(0.2)
    states = states_of(client, run_id)
    first, second = (number for number, state in enumerate(states) if state.name == AGAIN)
    assert states[second + 1].timestamp - states[second].timestamp > timedelta(seconds=PAUSES[1] - 2)
    assert [states[first].message, states[second].message] == [
        "Its process ended with exit code 3 before its flow began (start 1 of 4).",
        "Its process was killed by SIGKILL before its flow began (start 2 of 4).",
    ]


def test_a_process_that_ends_well_without_beginning_is_no_start_either(served, client):
    plan, name = served
    plan.write_text("x")
    deployment = client.read_deployment_by_name(f"stumbling/{name}").id
    run_id = runs.ensure_run(client, deployment, key=uuid.uuid4().hex, parameters={}).id
    deadline = time.monotonic() + PATIENCE
    while (found := runs.state(client, run_id)).state_name != "Walked":
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def test_a_process_that_hangs_does_not_outlive_what_serves_it(client, state_folder, environment, tmp_path):
    """It would begin one day, beside the one that was started in its place."""
    with stumbling(tmp_path, state_folder, environment, "runner") as (serving, name):
        (tmp_path / "plan").write_text("h")
        deployment = client.read_deployment_by_name(f"stumbling/{name}").id
        runs.ensure_run(client, deployment, key=uuid.uuid4().hex, parameters={})
        wait_until((tmp_path / "hangs").exists)
        hanging = psutil.Process(int((tmp_path / "hangs").read_text()))
        os.kill(serving._child._program.pid, signal.SIGKILL)
        assert not psutil.wait_procs([hanging], timeout=10)[1]


def test_a_run_that_keeps_dying_becomes_a_question_that_names_step_signal_and_command(
    client, state_folder, environment, tmp_path
):
    toy = make_toy(tmp_path, client, "# Toy\n\n## Greeting\n\n- [ ] it is there `$ kill -9 $PPID; sleep 60`\n")
    unscheduled = [served for served in deployments_of(toy.app) if not served.cron]
    serving = Serving(unscheduled, environment=environment, folder=state_folder)
    try:
        serving.wait_ready()
        loop_id = toy.authorise()
        asked = toy.asked(toy.go(loop_id).id).description
    finally:
        serving.stop()
    assert (
        "ended 3 times without progress at “verify: attempt 1 of 4”: its process was killed by SIGKILL, "
        "while `kill -9 $PPID; sleep 60` ran (memory ran out, unless somebody killed it)"
    ) in asked


# --- What is told to the server


@pytest.fixture(scope="module")
def deployment(api_url):
    """Nobody serves it."""
    return deploy(note, f"ws-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def run_id(deployment, client):
    """A run that nobody takes up."""
    return runs.ensure_run(client, deployment, key=uuid.uuid4().hex, parameters={"folder": "/"}).id


@pytest.mark.parametrize("state", [Pending(), Running()])
def test_a_run_under_way_is_scheduled_anew_after_the_pause(client, run_id, state):
    client.set_flow_run_state(run_id, state, force=True)
    assert OnServer().start_again(run_id, 20, "it ended")
    run = client.read_flow_run(run_id)
    assert (run.state_name, run.state.message) == (AGAIN, "it ended")
    assert run.next_scheduled_start_time - datetime.now(UTC) > timedelta(seconds=10)


def test_a_run_that_is_cancelled_before_it_starts_again_is_cancelled_at_once(client, run_id):
    """A worker notes the process of a run, and Prefect would wait for somebody to end that."""
    client.set_flow_run_state(run_id, Pending(), force=True)
    client.update_flow_run(run_id, infrastructure_pid="4711")
    assert OnServer().start_again(run_id, 20, "it ended")
    assert runs.cancel(client, run_id).state == "CANCELLED"


def test_a_run_under_way_is_said_to_have_crashed(client, run_id):
    client.set_flow_run_state(run_id, Running(), force=True)
    assert OnServer().crash(run_id, "it ended")
    assert runs.state(client, run_id).state == "CRASHED"


@pytest.mark.parametrize(
    "tell", [lambda run_id: OnServer().start_again(run_id, 0, ""), partial(OnServer().crash, said="")]
)
@pytest.mark.parametrize("state", [Cancelling(), Cancelled(), Completed(), Scheduled()])
def test_what_somebody_decided_about_a_run_stays(client, run_id, state, tell):
    client.set_flow_run_state(run_id, Pending(), force=True)
    client.set_flow_run_state(run_id, state, force=True)
    assert not tell(run_id)
    assert runs.state(client, run_id).state == state.type.value


@pytest.mark.parametrize("cancelled", [Cancelling(), Cancelled()])
@pytest.mark.parametrize("to", [Scheduled(), Crashed()])
def test_a_run_that_is_cancelled_while_it_is_moved_stays_cancelled(client, run_id, cancelled, to):
    client.set_flow_run_state(run_id, Pending(), force=True)
    before = client.read_flow_run(run_id).state
    client.set_flow_run_state(run_id, cancelled, force=True)
    assert not put(client, run_id, before, to)
    assert runs.state(client, run_id).cancelled


@pytest.mark.parametrize("state", [Pending(), Running()])
def test_a_run_at_which_another_process_works_is_left_to_it(client, run_id, state, tmp_path):
    client.set_flow_run_state(run_id, state, force=True)
    there, on_server = create(tmp_path).alive(str(run_id)), OnServer([tmp_path / "other", tmp_path])
    with FileLock(there, StillClock(), "here").hold("another process"):
        assert not on_server.start_again(run_id, 0, "")
        assert not on_server.crash(run_id, "")
        assert runs.state(client, run_id).state == state.type.value
    assert on_server.start_again(run_id, 0, "")


def test_a_run_that_was_deleted_is_left_alone(client, run_id):
    client.delete_flow_run(run_id)
    assert not OnServer().start_again(run_id, 0, "")
