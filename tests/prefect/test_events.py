"""A start waits seconds for Prefect's stream of events, also where a proxy swallows it."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from prefect._flow_run_suspension import FlowRunSuspensionRequest, observe_flow_run_suspension
from prefect._internal.observers import FlowRunCancellingObserver
from prefect.client.orchestration import get_client
from prefect.runner._event_emitter import EventEmitter
from prefect.settings import PREFECT_API_URL, temporary_settings

from irontree.flows.runs import runs
from irontree.flows.serve.events import LONGEST, wait_no_longer
from irontree.flows.serve.serving import Served, Serving
from tests.prefect.harness import deploy
from tests.prefect.sample_flows import question
from tests.support.swallowing import Swallowing

PATIENCE = 60
PREFECT_WAITS = 100
"""Seconds that Prefect waits by itself: 117 were measured."""


@contextmanager
def swallowing(api_url: str, stream: str = "out", *, after_upgrade: bool = False) -> Iterator[str]:
    """The address of the server behind a proxy that swallows what goes to that stream of events."""
    there = urlsplit(api_url)
    loop, proxy = (
        asyncio.new_event_loop(),
        Swallowing(there.hostname, there.port, f"/api/events/{stream}", after_upgrade),
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result()
    try:
        yield f"http://{there.hostname}:{port}{there.path}"
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(params=[False, True], ids=["never-opened", "silent-once-open"])
def behind(request, api_url):
    with swallowing(api_url, after_upgrade=request.param) as address, temporary_settings({PREFECT_API_URL: address}):
        yield address


@pytest.fixture(autouse=True)
def _no_longer():
    wait_no_longer()


def test_whoever_takes_up_runs_does_not_wait_to_hear_of_cancelled_ones(behind):
    async def observe() -> float:
        began = time.monotonic()
        async with FlowRunCancellingObserver(on_cancelling=lambda _: None):
            return time.monotonic() - began

    assert asyncio.run(observe()) < LONGEST + 3


def test_a_flow_does_not_wait_to_hear_that_it_was_suspended(behind, client, deployment):
    run_id, began = runs.ensure_run(client, deployment, key=uuid.uuid4().hex, parameters={}).id, time.monotonic()
    with observe_flow_run_suspension(run_id, FlowRunSuspensionRequest()):
        assert time.monotonic() - began < LONGEST + 3


def test_whoever_takes_up_runs_does_not_wait_until_it_can_tell_of_cancelled_ones(api_url):
    async def emit() -> float:
        began = time.monotonic()
        async with get_client() as client, EventEmitter(runner_name="x", client=client):
            return time.monotonic() - began

    with swallowing(api_url, "in") as address, temporary_settings({PREFECT_API_URL: address}):
        assert asyncio.run(emit()) < LONGEST + 3


def test_a_run_behind_such_a_proxy_is_done_in_seconds_and_can_be_cancelled(
    api_url, client, state_folder, environment, tmp_path
):
    """A worker opens a stream for each run, and the flow process another."""
    name = f"ws-{uuid.uuid4().hex[:8]}"
    served = [Served(f"tests.prefect.sample_flows.{flow}", name, tags=(runs.owner_tag(name),)) for flow in FLOWS]
    with swallowing(api_url) as address:
        there = {**environment, "PREFECT_API_URL": address}
        serving = Serving(served, environment=there, folder=state_folder, by="worker")
        try:
            serving.wait_ready()
            began = time.monotonic()
            done, cancelled = (start(client, f"{flow}/{name}", tmp_path) for flow in ("note", "long-step"))
            wait_for(client, done, "COMPLETED")
            wait_until((tmp_path / "started").exists)
            assert time.monotonic() - began < PREFECT_WAITS / 2
            runs.cancel(client, cancelled)
            wait_for(client, cancelled, "CANCELLED")
        finally:
            serving.stop()


FLOWS = ("note", "long_step")


def start(client, deployment, folder):
    found = client.read_deployment_by_name(deployment).id
    return runs.ensure_run(client, found, key=uuid.uuid4().hex, parameters={"folder": str(folder)}).id


def wait_for(client, run_id, state):
    wait_until(lambda: runs.state(client, run_id).state == state)


def wait_until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def deployment(api_url):
    """Nobody serves it."""
    return deploy(question, f"ws-{uuid.uuid4().hex[:8]}")
