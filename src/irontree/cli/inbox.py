"""`irontree inbox`: everything that waits for a person, in all repositories of this machine, oldest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from irontree.app import App
from irontree.cli.awaiting import everything_waiting
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.context import Context
from irontree.cli.everywhere import everywhere
from irontree.cli.exit_codes import OK
from irontree.cli.parser import add_json
from irontree.errors import IrontreeError, in_words
from irontree.services.inbox import Waiting, oldest_first


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take nothing but the form of the output."""
    add_json(parser)


def run(context: Context) -> int:
    """Print what waits, here and wherever else is registered."""
    apps, problems = everywhere(context)
    found, more = look(apps)
    context.console.show(lambda: as_json(found, (*problems, *more)), blocks(found, (*problems, *more), len(apps)))
    return OK


def look(apps: Iterable[App]) -> tuple[tuple[Waiting, ...], tuple[str, ...]]:
    """What waits in *apps*, oldest first; and why it cannot be said of one, a line each."""
    found: list[Waiting] = []
    problems: list[str] = []
    for app in apps:
        try:
            of_app, unknown = everything_waiting(app)
        except IrontreeError as error:
            of_app, unknown = (), in_words(error)
        found.extend(of_app)
        problems += [f"{app.repository.root}: {unknown}"] if unknown else []
    return oldest_first(found), tuple(problems)


def as_json(found: Sequence[Waiting], problems: Sequence[str]) -> dict[str, Any]:
    """The documented keys."""
    return {"waiting": [one.as_json() for one in found], "problems": list(problems)}


def blocks(found: Sequence[Waiting], problems: Sequence[str], repositories: int) -> Iterator[Block]:
    """The same for people."""
    if not found:
        where = "the one repository on the list" if repositories == 1 else f"{repositories} repositories"
        yield Lines((f"Nothing waits for you in {where}.",) if repositories else ("No repositories yet.", _ADD))
    yield from map(waiting_block, found)
    if problems:
        yield Lines(tuple(Cell(line, "bad") for line in problems), title="Trouble")


def waiting_block(one: Waiting) -> Block:
    """The question, where it is shown, and how to answer it."""
    asked = one.question
    why = f": {asked.detail}" if asked.detail else ""
    return Lines((f"{asked.what}{why}", *_lines(one)), title=f"{one.repository} {asked.about}", framed=True)


def _lines(one: Waiting) -> Iterator[Cell]:
    if one.since:
        yield Cell(f"since {one.since}", "faint")
    if one.question.said:
        yield Cell(one.question.said, "faint")
    if one.form_url:
        yield Cell(f"form: {one.form_url}")
    if one.issue_url:
        yield Cell(f"issue: {one.issue_url}")
    if one.look:
        yield Cell("see what would be approved, and what changed:", "faint")
        yield Cell(f"  {one.look}", "command")
    for label, command in one.commands:
        yield Cell(f"{label}:", "faint")
        yield Cell(f"  {command}", "command")


_ADD = "-> irontree repos add DIR"
