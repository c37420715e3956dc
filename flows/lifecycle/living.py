"""A flow run says by a kernel lock that its process lives (ruling R3)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.runtime import flow_run

from irontree.app import App
from irontree.flows.local.lifeline import end_with_runner
from irontree.ports import Lock
from irontree.store.layout import Layout
from irontree.store.locks import remove_if_free

FLOW_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How Prefect names runs; other files there are held by who serves the repository, and stay."""
WAIT_FOR_OTHER_PROCESS = 900.0
"""Seconds."""


@contextmanager
def living(app: App) -> Iterator[None]:
    """Hold this flow run's lock for the block, and end with the runner that started the process.

    A run whose state somebody changed by hand is started beside the process that it still has: the second waits.
    """
    end_with_runner()
    lock = app.alive(str(flow_run.get_id()))
    with held_for_good(lock, f"flow run {flow_run.get_name()}", wait_seconds=WAIT_FOR_OTHER_PROCESS):
        yield


@contextmanager
def held_for_good(lock: Lock, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold *lock* for the block, and be seen to: its file may be tidied away between our opening and our locking it."""
    while True:
        with lock.hold(what, wait_seconds=wait_seconds):
            holder = lock.holder()
            if holder and holder.pid == os.getpid():
                yield
                return


def tidy(app: App) -> int:
    """Remove the lock files of flow runs that no process holds; how many there were."""
    folder = Layout(app.repository.root).alive("any").parent
    files = [path for path in folder.glob("*") if FLOW_RUN.fullmatch(path.name)]
    return sum(remove_if_free(path) for path in files)
