"""A flow run says by a kernel lock that its process lives (ruling R3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.runtime import flow_run

from irontree.app import App
from irontree.flows.lifeline import end_with_runner


@contextmanager
def living(app: App) -> Iterator[None]:
    """Hold this flow run's lock for the block, and end with the runner that started the process."""
    end_with_runner()
    with app.alive(str(flow_run.get_id())).hold(f"flow run {flow_run.get_name()}"):
        yield
