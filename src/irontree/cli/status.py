"""`irontree status`: the tree, who is busy, open questions with the commands that answer them, loops."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from irontree.app import App
from irontree.cli.blocks import Block, Cell, Lines, Style, Table
from irontree.cli.context import Context
from irontree.cli.hints import Asked
from irontree.cli.loops import loop_row
from irontree.cli.parser import add_json
from irontree.cli.questions import open_loops, open_questions, question_block
from irontree.cli.text import short_sha
from irontree.domain.state import Phase
from irontree.services.overview import IssueRow, Overview, overview
from irontree.services.world import read_world

STYLES: Final[dict[str, Style]] = {
    Phase.RUNNING: "busy",
    Phase.COMMITTED: "busy",
    Phase.VERIFIED: "busy",
    Phase.DONE: "good",
    Phase.TERMINAL: "bad",
    Phase.PENDING: "asks",
    Phase.BLOCKED: "asks",
    Phase.STALE: "asks",
    Phase.ADOPTED: "asks",
}
"""Of phases, by what a reader should notice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take no arguments of its own."""
    add_json(parser)


def run(context: Context) -> int:
    """Print everything at a glance."""
    app = context.look()
    found = overview(app)
    asked = open_questions(app, read_world(app), open_loops(app))
    context.console.show(as_json(found, asked, _loop_at_work(app)), blocks(found, asked, _loop_at_work(app)))
    return 0


def as_json(found: Overview, asked: tuple[Asked, ...], active: str | None) -> dict[str, Any]:
    """The documented keys."""
    return {
        "issues": [asdict(row) for row in found.issues],
        "questions": [question.as_json() for question in asked],
        "loops": [asdict(row) for row in found.loops],
        "busy": found.busy,
        "active_loop": active,
        "problems": list(found.problems),
    }


def blocks(found: Overview, asked: tuple[Asked, ...], active: str | None) -> Iterator[Block]:
    """The same for people."""
    if not found.issues:
        yield Lines(("No issues yet.", "-> irontree example > SPEC.md, edit it, then: irontree task SPEC.md"))
    else:
        yield Lines((Cell(_summary(found.issues), "title"),))
        yield Table(("ISSUE", "STATE", "ATTEMPT", "COMMIT", "TITLE"), tuple(_row(row) for row in found.issues))
    if found.busy or active:
        yield Lines(tuple(Cell(line, "busy") for line in _busy(found.busy, active)))
    yield from (question_block(question) for question in asked)
    if found.loops:
        yield Table(("LOOP", "STATE", "DONE", "TRANSITIONS"), tuple(loop_row(row) for row in found.loops))
    if trouble := (*found.problems, *_undelivered(found.issues)):
        yield Lines(tuple(Cell(line, "bad") for line in trouble), title="Trouble")


def _summary(rows: tuple[IssueRow, ...]) -> str:
    done = sum(1 for row in rows if row.phase == Phase.DONE)
    asking = sum(1 for row in rows if row.asks)
    waits = f", {asking} waiting for you" if asking else ""
    return f"{done} of {len(rows)} issues done{waits}"


def _row(row: IssueRow) -> tuple[Cell | str, ...]:
    return (
        f"#{row.number}",
        Cell(state_words(row), STYLES.get(row.phase, "")),
        Cell(row.attempts.replace(" ", ""), "faint"),
        Cell(short_sha(row.code_ref), "faint"),
        "  " * row.depth + row.title,
    )


def state_words(row: IssueRow) -> str:
    """The phase, and what a task that is ready has to wait for."""
    if row.phase == Phase.READY and row.waits_for and not row.attempts:
        return "waits for others"
    return row.phase


def _busy(driver: str | None, active: str | None) -> Iterator[str]:
    if driver:
        yield f"At work: {driver}"
    if active:
        yield f"Loop at work: {active}"


def _loop_at_work(app: App) -> str | None:
    holder = app.lease.holder()
    return f"{holder.what} (process {holder.pid} on {holder.host}, since {holder.since})" if holder else None


def _undelivered(rows: tuple[IssueRow, ...]) -> Iterator[str]:
    for row in rows:
        yield from (f"issue-{row.number}: not delivered yet: {failure}" for failure in row.undelivered)
