"""What a loop shows of itself: in order, beside the work, and nothing of it is left behind at the work's end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from uuid import UUID

import pytest

from irontree.errors import LogDamaged
from irontree.flows.loop import display

BAR = UUID(int=1)


def left() -> list[asyncio.Task[object]]:
    """What is still going on besides us."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_what_is_shown_is_shown_in_order_and_the_end_waits_for_the_last():
    """...which tells how far it is by then: however often it was told to, while one was on its way."""
    shown, first, goes_on = [], asyncio.Event(), asyncio.Event()

    async def show(earlier: UUID | None) -> UUID:
        shown.append(earlier)
        first.set()
        await goes_on.wait()
        return BAR

    async def work() -> None:
        async with display(show) as again:
            again()
            assert shown == [], "the work goes on"
            await first.wait()
            again()
            again()
            goes_on.set()
        assert left() == []

    asyncio.run(work())
    assert shown == [None, BAR]


@pytest.mark.parametrize("error", [LogDamaged("no such loop"), RuntimeError("no such loop")])
def test_what_fails_is_logged_and_neither_fails_the_work_nor_what_is_shown_later(caplog, error: Exception):
    shown, tried = [], asyncio.Event()

    async def show(_: UUID | None) -> None:
        shown.append("tried")
        if len(shown) == 1:
            tried.set()
            raise error

    async def work() -> str:
        async with display(show) as again:
            again()
            await tried.wait()
            await asyncio.sleep(0)
            again()
            return "done"

    with caplog.at_level(logging.WARNING, "irontree.flows.loop"):
        assert asyncio.run(work()) == "done"
    assert len(shown) == 2
    assert "no such loop" in caplog.text


@pytest.mark.parametrize("end", [None, asyncio.CancelledError()])
def test_what_takes_too_long_is_given_up_at_the_end_of_the_work(end: BaseException | None):
    """...at once where the work was cancelled."""

    async def show(_: UUID | None) -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        with suppress(asyncio.CancelledError):
            async with display(show, within=3600 if end else 0) as again:
                again()
                if end:
                    raise end
        assert left() == []

    asyncio.run(work())
