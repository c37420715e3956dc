"""Look for scheduled runs as soon as somebody says that there is one: with `wake`, into a pipe.

Nothing here imports Prefect.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path


async def look_when_woken(pipe: Path, look: Callable[[], Awaitable[object]]) -> None:
    """Make the *pipe*, and call *look* whenever something was written there, for ever."""
    os.mkfifo(pipe, 0o600)
    reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # as its writer too: it never comes to its end
    woken = asyncio.Event()

    def note() -> None:
        os.read(reading, 4096)
        woken.set()

    asyncio.get_running_loop().add_reader(reading, note)
    try:
        while True:
            await woken.wait()
            woken.clear()
            await look()
    finally:
        asyncio.get_running_loop().remove_reader(reading)
        os.close(reading)
