"""Wait seconds, not minutes, for Prefect's streams of events: a run can do without them.

Runner, worker and flow process open one before a run begins, to hear that it was cancelled or suspended. Where a proxy
lets no websocket through, or the server does not answer there, Prefect tries eleven times for ten seconds each, and
has no limit at all once the connection is open. Without the stream it asks the server from time to time instead.
"""

from __future__ import annotations

import asyncio
from typing import Final

from prefect.events.clients import NullEventsClient, PrefectEventSubscriber
from prefect.runner._event_emitter import EventEmitter

LONGEST: Final = 5.0
"""Seconds."""
_SUBSCRIBE, _EMIT = PrefectEventSubscriber.__aenter__, EventEmitter.__aenter__


def wait_no_longer() -> None:
    """Have this process go on without a stream of events that is not open in time."""
    PrefectEventSubscriber.__aenter__ = _subscribe  # type: ignore[method-assign, assignment]
    EventEmitter.__aenter__ = _emit  # type: ignore[method-assign]


async def _subscribe(self: PrefectEventSubscriber) -> PrefectEventSubscriber:
    try:
        async with asyncio.timeout(LONGEST):
            return await _SUBSCRIBE(self)
    except TimeoutError as error:
        if half_open := self._websocket:  # nobody closes what was not entered, and its end would be waited for
            half_open.transport.abort()
        raise TimeoutError(f"it did not open within {LONGEST:.0f} s; does a proxy let websockets through?") from error


async def _emit(self: EventEmitter) -> EventEmitter:
    """It tells of runs that were cancelled, which the run's state tells too."""
    try:
        async with asyncio.timeout(LONGEST):
            return await _EMIT(self)
    except TimeoutError:
        self._events_client = NullEventsClient()
        await self._events_client.__aenter__()
        return self
