"""A flow run says by a kernel lock that its process lives (ruling R3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.runtime import flow_run

from irontree.app import App
from irontree.flows.lifeline import end_with_runner

WAIT_FOR_OTHER_PROCESS = 900.0
"""Seconds."""


@contextmanager
def living(app: App) -> Iterator[None]:
    """Hold this flow run's lock for the block, and end with the runner that started the process.

    A run whose state somebody changed by hand is started beside the process that it still has: the second waits.
    """
    end_with_runner()
    lock = app.alive(str(flow_run.get_id()))
    with lock.hold(f"flow run {flow_run.get_name()}", wait_seconds=WAIT_FOR_OTHER_PROCESS):
        yield
