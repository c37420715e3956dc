"""Waits for what another run brings about by looking at our own log; Prefect only says whether the run still lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.runs import Run

Found = TypeVar("Found")

LOOK_EVERY = 0.1
ASK_EVERY = 2.0


async def wait_for(look: Callable[[], Found | None], run_id: UUID) -> Found | Run:
    """Return what *look* finds, or the run if it ended or was suspended without that.

    *look* reads the log: it is called in a thread, often, and once more after the run has stopped.
    """
    ask_at = time.monotonic() + ASK_EVERY
    while (found := await asyncio.to_thread(look)) is None:
        if time.monotonic() >= ask_at:
            run = await asyncio.to_thread(_read, run_id)
            if run.final or run.state == "PAUSED":
                found = await asyncio.to_thread(look)
                return run if found is None else found
            ask_at = time.monotonic() + ASK_EVERY
        await asyncio.sleep(LOOK_EVERY)
    return found


def _read(run_id: UUID) -> Run:
    with runs.connect() as client:
        return runs.state(client, run_id)
