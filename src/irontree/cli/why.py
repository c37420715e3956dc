"""`irontree why ISSUE`: why a task is done, next, ready, waiting, blocked or skipped, in plain words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from irontree.cli.blocks import Block, Cell, Lines, Style
from irontree.cli.context import Context
from irontree.cli.finding import find_issue
from irontree.cli.parser import add_issue, add_json
from irontree.services.why import Explanation, Standing, explain
from irontree.services.world import World, read_world

_STYLE: Final[dict[Standing, Style]] = {
    "done": "good",
    "next": "busy",
    "ready": "",
    "waiting": "",
    "blocked": "asks",
    "skipped": "faint",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the issue or the task key."""
    add_issue(parser)
    add_json(parser)


def run(context: Context) -> int:
    """Print where it stands, the rule, and its newest events."""
    app = context.look()
    found = explain(app, _key(read_world(app), context.options.issue))
    context.console.show(lambda: asdict(found), blocks(found))
    return 0


def _key(world: World, text: str) -> str:
    """A task key may be one that has no issue yet."""
    return text if text in world.nodes else find_issue(world, text).task_key


def blocks(found: Explanation) -> Iterator[Block]:
    """The explanation for people."""
    name = f"#{found.issue_number} {found.task_key}" if found.issue_number else found.task_key
    yield Lines((Cell(f"{name} is {found.standing}: {found.because}", _STYLE[found.standing]),))
    yield Lines((Cell(found.rule, "faint"),), title="Because")
    if found.events:
        yield Lines(found.events, title="What happened last")
