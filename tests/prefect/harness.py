"""Flows against a real private server, without a runner: `drive` plays the process that a runner would start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.events.worker import EventsWorker
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    temporary_settings,
)
from prefect.states import State

from irontree.files import locked, swap
from irontree.flows.server.database import build_template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "build" / f"prefect-{version('prefect')}.db"
PAGES = TEMPLATE.with_suffix(".ui")
"""What the server makes of its pages: 17 MB."""


def prepare_folder(state_folder: Path) -> Path:
    """A state folder whose database template and pages are those kept under build/: migrations take 5 s.

    Of several processes that call this, one makes what is missing and the others wait for it.
    """
    PAGES.mkdir(parents=True, exist_ok=True)
    state_folder.mkdir(parents=True, exist_ok=True)
    with locked(TEMPLATE.with_suffix(".lock")):
        if not TEMPLATE.exists():
            swap(TEMPLATE, build_template(state_folder).read_bytes())
        if not (pages := state_folder / "ui").exists():
            pages.symlink_to(PAGES)
            swap(state_folder / "template.db", TEMPLATE.read_bytes())
    return state_folder


@contextmanager
def prefect_at(api_url: str, password: str | None = None) -> Iterator[None]:
    """This process's Prefect talks to *api_url*, and sends no heartbeats (each sync flow would take 1 s for it).

    Programs that it starts have the *password* in their environment.
    """
    settings = {
        PREFECT_API_URL: api_url,
        PREFECT_API_AUTH_STRING: password,
        # It is plain HTTP: no client need read all certificates of the world first.
        PREFECT_API_SSL_CERT_FILE: os.environ["SSL_CERT_FILE"],
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
        PREFECT_SERVER_EPHEMERAL_ENABLED: False,
    }
    with temporary_settings(settings), pytest.MonkeyPatch.context() as patch:
        if password:
            patch.setenv("PREFECT_API_AUTH_STRING", password)
        try:
            yield
        finally:
            drain()


def drain() -> None:
    """Wait until logs and events are with the server; what is unsent when it ends holds this process for a minute."""
    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=10)


def deploy(
    flow: Flow[..., Any], name: str, parameters: Mapping[str, Any] | None = None, *, tags: Sequence[str] = ()
) -> UUID:
    """Register a deployment that nobody serves: its runs wait for `drive`."""
    return flow.to_deployment(name, parameters=dict(parameters or {}), tags=list(tags)).apply()


def drive(flow: Flow[..., Any], client: SyncPrefectClient, run_id: UUID) -> State[Any]:
    """Execute the run in this process until it ends or is suspended, as the flow process of a runner would."""
    try:
        state = run_flow(flow, flow_run=client.read_flow_run(run_id), return_type="state")
        return asyncio.run(state) if asyncio.iscoroutine(state) else state
    except Pause as pause:
        return pause.state


def logs(client: SyncPrefectClient, run_id: UUID) -> Sequence[tuple[int, str]]:
    """Level and text of everything that the server keeps of the run's log."""
    APILogWorker.drain_all(timeout=10)
    found = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id])), limit=200)
    return [(entry.level, entry.message) for entry in found]
