"""`irontree events ISSUE`: the event log of one issue; with `--json` the contract's blocks exactly as recorded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from irontree.cli.blocks import Block, Cell, Lines, Table
from irontree.cli.context import Context
from irontree.cli.finding import find_number
from irontree.cli.parser import add_issue, add_json
from irontree.ports import Stream
from irontree.services.projections.narrate import say_issue_event
from irontree.services.world import read_world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue."""
    add_issue(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Print one line per event, oldest first, and what could not be read; raises NotEligible where there is nothing."""
    app = context.look()
    world = read_world(app)
    number = find_number(world, context.options.issue)
    stream = app.log.read(number)
    if not stream.highest_sequence:
        world.state(number)
    context.console.show(lambda: as_json(stream), blocks(stream))
    return 0


def as_json(stream: Stream) -> dict[str, Any]:
    """`events`: each file's `iron_tree:` block, key for key, and its `meta:`; `problems`: what cannot be read."""
    return {
        "events": [
            {"iron_tree": record.event.model_dump(mode="json"), "meta": dict(record.meta)} for record in stream.records
        ],
        "problems": [{"path": problem.path, "what": problem.what} for problem in stream.problems],
    }


def blocks(stream: Stream) -> Iterator[Block]:
    """The same for people."""
    rows = tuple(
        (
            f"{record.event.sequence:04d}",
            Cell(str(record.meta.get("time", "")), "faint"),
            record.event.event,
            say_issue_event(record),
        )
        for record in stream.records
    )
    yield Table(("SEQ", "TIME", "EVENT", "WHAT"), rows)
    if stream.problems:
        lines = tuple(Cell(f"{problem.path}: {problem.what}", "bad") for problem in stream.problems)
        yield Lines(lines, title="Cannot be read")
