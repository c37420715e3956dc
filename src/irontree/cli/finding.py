"""Which issue somebody means, and which step of it."""

from __future__ import annotations

import difflib

from irontree.app import App
from irontree.domain.ids import parse_issue
from irontree.domain.state import TaskState
from irontree.errors import Busy, NotEligible
from irontree.services.world import World


def find_issue(world: World, text: str) -> TaskState:
    """The issue that `issue-12`, `#12`, `12` or a task key names; raises NotEligible if the log knows none."""
    return world.state(find_number(world, text))


def find_number(world: World, text: str) -> int:
    """Its number, even if nothing of its log can be read; raises NotEligible for a key that nobody has."""
    number = int(text) if text.isdecimal() else parse_issue(text)
    if number is not None:
        return number
    if text in world.states:
        return world.states[text].issue_number
    close = difflib.get_close_matches(text, world.states, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise NotEligible(
        f"{text!r} is no issue (issue-12, #12, 12) and no task key here{meant}", remedy="`irontree status` lists them"
    )


def refuse_beside_loop(app: App) -> None:
    """Raise Busy while a loop is at work, or another tool's lease says so: it takes the steps itself (contract)."""
    if foreign := app.lease.foreign():
        raise Busy(f"another tool's loop is at work here: {foreign}", remedy="wait until it halts")
    if stale := app.lease.stale():
        raise Busy(
            f"stale loop lease detected: {stale.words} (.mino/loops/active.lock)",
            remedy="`irontree task` asks whether to take it over, and cleans up",
        )
    if holder := app.lease.holder():
        raise Busy(
            f"loop {holder.what} is at work here since {holder.since} (process {holder.pid} on {holder.host})",
            remedy="`irontree status` shows how far it is; it stops by itself when a decision is yours",
        )
