"""What is refused beside a loop at work, whoever drives it (protocol, Loop lease): asked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from irontree.app import App
from irontree.errors import Busy
from irontree.services.loops.loop import Loop


def refuse_beside_loop(app: App) -> None:
    """Raise Busy while a loop is at work, or another tool's lease says so: it takes the steps itself (contract)."""
    _refuse_beside_foreign(app)
    if stale := app.lease.stale():
        raise Busy(
            f"stale loop lease detected: {stale.words} (.mino/loops/active.lock)",
            remedy="`irontree task` asks whether to take it over, and cleans up",
        )
    if holder := app.lease.holder():
        raise Busy(
            f"loop {holder.what} is at work here ({holder.about})",
            remedy="`irontree status` shows how far it is; it stops by itself when a decision is yours",
        )


def refuse_at_work(app: App, loops: Iterable[Loop], over: str) -> None:
    """Raise Busy if one of *loops*, which are *over* something, is at work, or was left by another tool.

    Raises it too while another tool's loop is at work: what that is over is not known here.
    """
    _refuse_beside_foreign(app)
    holder, stale = app.lease.holder(), app.lease.stale()
    for loop in loops:
        if holder and holder.what == loop.id:
            raise Busy(
                f"loop {loop.id} is at work on {over}",
                remedy=f"wait until it halts, or cancel it: `irontree task resume {loop.id} cancel`",
            )
        if stale and stale.loop_id == loop.id:
            raise Busy(
                f"stale loop lease detected: {stale.words} (.mino/loops/active.lock)",
                remedy=f"`irontree task resume {loop.id}` asks whether to take it over",
            )


def _refuse_beside_foreign(app: App) -> None:
    if foreign := app.lease.foreign():
        raise Busy(f"another tool's loop is at work here: {foreign}", remedy="wait until it halts")
