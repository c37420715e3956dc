"""An open question as a verb shows it: what it is about, and every command that answers it."""

from __future__ import annotations

from collections.abc import Iterator

from irontree.cli.blocks import Block, Cell, Lines
from irontree.services.hints import DAMAGED, OpenQuestion


def question_block(asked: OpenQuestion) -> Block:
    """The question and how to answer it."""
    where = f"#{asked.number} {asked.title}" if asked.number is not None else f"Loop {asked.loop_id}"
    why = f": {asked.detail}" if asked.detail else ""
    return Lines((f"{asked.what}{why}", *_answer_lines(asked)), title=where, framed=True)


def _answer_lines(asked: OpenQuestion) -> Iterator[Cell]:
    if asked.said:
        yield Cell(asked.said, "faint")
    if asked.damaged and not asked.newer:
        yield Cell("put the event files right, or record what is missing and go on from there:", "faint")
        yield Cell(f"  {DAMAGED}", "command")
    if asked.look:
        yield Cell("see what would be approved, and what changed:", "faint")
        yield Cell(f"  {asked.look}", "command")
    for choice, command in asked.answers:
        yield Cell(f"{choice.label}:", "faint")
        yield Cell(f"  {command}", "command")
