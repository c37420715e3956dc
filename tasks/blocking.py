"""Runs a service, which blocks, in a thread of an async task, and stops it when Prefect stops the task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from irontree.ports import Cancellation

Result = TypeVar("Result")


async def in_thread(work: Callable[[Cancellation], Result]) -> Result:
    """Return what *work* returns; it gets a flag that is set when this task is cancelled, and is always waited for.

    Prefect cancels a run by SIGTERM, which reaches an async task as CancelledError, and kills the process 30 s later.
    """
    stop = threading.Event()
    job = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([job])
        raise
