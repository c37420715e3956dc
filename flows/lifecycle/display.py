"""What a loop shows of itself while it works: beside the work, which neither waits for it nor fails with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from irontree.errors import IrontreeError

logger = logging.getLogger(__name__)

Show = Callable[[UUID | None], Coroutine[Any, Any, UUID | None]]
"""Shows how far the work is, in what an earlier call has shown."""
SHOWN_WITHIN: Final = 30.0
"""Seconds that the end of the work waits for what is being shown."""


class Display:
    """Calls *show* when it is told to, one call behind the other. What fails in it is logged.

    The end of the `async with` waits for what is being shown, for *within* seconds; a cancelled one for nothing.
    """

    def __init__(self, show: Show, *, within: float = SHOWN_WITHIN) -> None:
        self._show = show
        self._within = within
        self._shown: UUID | None = None
        self._wanted = False
        self._showing: asyncio.Task[None] | None = None

    def again(self) -> None:
        """Show how far it is now, behind what is being shown; returns at once."""
        self._wanted = True
        if self._showing is None or self._showing.done():
            self._showing = asyncio.create_task(self._keep_showing())
            self._showing.add_done_callback(_tell_defect)

    async def _keep_showing(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                self._shown = await self._show(self._shown)
            except (IrontreeError, OSError) as error:
                logger.warning("how far the loop is could not be shown: %s", error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._showing is None:
            return
        if not isinstance(error, asyncio.CancelledError):
            await asyncio.wait({self._showing}, timeout=self._within)
        self._showing.cancel()
        await asyncio.wait({self._showing})


def _tell_defect(showing: asyncio.Task[None]) -> None:
    if not showing.cancelled() and (error := showing.exception()):
        logger.error("how far the loop is could not be shown", exc_info=error)
