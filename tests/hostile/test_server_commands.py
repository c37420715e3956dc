"""Whoever writes to a Prefect server, a team's too, runs no command on the machine of a worker of ours."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient

from irontree.flows.runs import runs
from irontree.flows.serve.serving import POOL, Served, Serving
from irontree.flows.server.connection import local_environment
from tests.prefect.conftest import client
from tests.prefect.harness import ROOT
from tests.support.soak import in_soak

__all__ = ["client"]

FLOWS = "tests.prefect.sample_flows"
PATIENCE = 60


def wait_until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return found


@pytest.fixture(scope="module", params=["runner", "worker"])
def name(request, state_folder, api_url) -> Iterator[str]:
    """The sample flows, served under that name by a terminal's runner and by a worker."""
    name = f"attacked-{uuid.uuid4().hex[:8]}"
    environment = local_environment(os.environ, state_folder, api_url) | {"PYTHONPATH": str(ROOT)}
    served = [Served(f"{FLOWS}.{flow}", name) for flow in ("note", "long_step")]
    serving = Serving(served, environment=environment, folder=state_folder, by=request.param)
    serving.wait_ready()
    yield name
    serving.stop()


@pytest.fixture
def mark(tmp_path) -> Path:
    """What an attacker's command would make."""
    return tmp_path / "pwned"


@pytest.fixture
def poisoned(client, name, mark, tmp_path) -> Iterator[str]:
    """Everything that the server can say about how to run our flows says to make *mark*."""
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(mark)!r}, 'w').close()\n")
    for flow in ("note", "long-step"):
        found = client.read_deployment_by_name(f"{flow}/{name}")
        said = {
            "entrypoint": f"{evil}:flow",
            "path": str(tmp_path),
            "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": f"touch {mark}"}}],
            "job_variables": {
                "command": f"touch {mark}",
                "env": {"PREFECT__FLOW_ENTRYPOINT": f"{evil}:flow"},
                "working_dir": str(tmp_path),
            },
        }
        client.request("PATCH", "/deployments/{id}", path_params={"id": found.id}, json=said)
    before = client.request("GET", "/work_pools/{name}", path_params={"name": POOL}).json()["base_job_template"]
    template = {**before, "job_configuration": {**before["job_configuration"], "command": f"touch {mark}"}}
    change_pool(client, template)
    yield name
    change_pool(client, before)


def change_pool(client: SyncPrefectClient, template: dict[str, Any]) -> None:
    client.request("PATCH", "/work_pools/{name}", path_params={"name": POOL}, json={"base_job_template": template})


def start(client, deployment, *, job_variables=None, **parameters):
    found = client.read_deployment_by_name(deployment)
    run = client.create_flow_run_from_deployment(found.id, parameters=parameters, job_variables=job_variables)
    return run.id


def ends(client, run_id) -> runs.RunInfo:
    return wait_until(lambda: (run := runs.state(client, run_id)).final and run)


def test_neither_deployment_nor_pool_nor_run_says_what_is_executed_or_where_hooks_are_found(
    client, poisoned, mark, tmp_path
):
    """A run of ours, one that is cancelled (Prefect then looks for hooks), and one that brings a command."""
    bringing = {"command": f"touch {mark}", "env": {"A": "B"}, "working_dir": str(tmp_path), "stream_output": False}
    long = start(client, f"long-step/{poisoned}", folder=str(tmp_path))
    ours = start(client, f"note/{poisoned}", folder=str(tmp_path), text="ours")
    brings = start(client, f"note/{poisoned}", job_variables=bringing, folder=str(tmp_path), text="theirs")
    wait_until((tmp_path / "started").exists)
    runs.cancel(client, long)
    refused = ends(client, brings)
    assert [ends(client, run_id).state for run_id in (ours, long)] == ["COMPLETED", "CANCELLED"]
    assert refused.state == "FAILED"
    assert "job variables (command, env, stream_output, working_dir)" in refused.message
    assert (tmp_path / "notes").read_text() == "ours\n"
    assert not mark.exists()


@in_soak
def test_a_run_that_names_another_repository_is_refused(client, name, tmp_path):
    ended = ends(client, start(client, f"note/{name}", folder=str(tmp_path), repository=str(tmp_path)))
    assert (ended.state, "its repository is not" in ended.message) == ("FAILED", True)
    assert not (tmp_path / "notes").exists()


@in_soak
def test_a_deployment_of_somebody_else_in_our_queue_is_not_run(client, name, mark, tmp_path, request):
    if "runner" in request.node.callspec.id:
        pytest.skip("a runner asks for runs of its own deployments alone")
    own = client.read_deployment_by_name(f"note/{name}")
    foreign = client.request(
        "POST",
        "/deployments/",
        json={
            "name": f"foreign-{name}",
            "flow_id": str(own.flow_id),
            "work_pool_name": POOL,
            "work_queue_name": name,
            "entrypoint": "os.system",
            "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": f"touch {mark}"}}],
        },
    ).json()
    run = client.create_flow_run_from_deployment(foreign["id"], parameters={"folder": str(tmp_path)})
    ended = ends(client, run.id)
    assert (ended.state, "none of those that are served" in ended.message) == ("FAILED", True)
    assert not mark.exists()
