"""`irontree audit`: the whole log re-derived from its files; 1 and exact findings if anything in it is not sound."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.context import Context
from irontree.cli.parser import add_json
from irontree.services.consistency.audit import Finding, audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take nothing but the form of the output."""
    add_json(parser)


def run(context: Context) -> int:
    """Print what was found; writes nothing."""
    app = context.look()
    found = audit(app)
    looked_at = (
        f"{len(app.log.streams())} issue(s), {len(app.loops.ids())} loop(s), {len(app.plans.revisions())} plan(s)"
    )
    context.console.show(lambda: as_json(found), blocks(found, looked_at))
    return 1 if found else 0


def as_json(found: tuple[Finding, ...]) -> dict[str, Any]:
    """`ok`, and `findings` with where, what and remedy (or null)."""
    return {"ok": not found, "findings": [item.as_json() for item in found]}


def blocks(found: tuple[Finding, ...], looked_at: str) -> Iterator[Block]:
    """The same for people."""
    if not found:
        yield Lines((Cell(f"Sound: {looked_at}, every event legal, chained, and its commits here.", "good"),))
        return
    yield Lines(tuple(Cell(item.line(), "bad") for item in found), title=f"{len(found)} finding(s) in {looked_at}")
