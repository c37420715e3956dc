"""An open question as a verb shows it: what it is about, and every command that answers it."""

from __future__ import annotations

from collections.abc import Iterator

from irontree.cli.blocks import Block, Cell, Lines
from irontree.services.hints import DAMAGED, OpenQuestion


def question_block(asked: OpenQuestion, form_url: str | None = None) -> Block:
    """The question, its form if that is known, and how to answer it."""
    why = f": {asked.detail}" if asked.detail else ""
    title = f"{asked.about[:1].upper()}{asked.about[1:]}" if asked.loop_id and asked.number is None else asked.about
    return Lines((f"{asked.what}{why}", *_answer_lines(asked, form_url)), title=title, framed=True)


def _answer_lines(asked: OpenQuestion, form_url: str | None) -> Iterator[Cell]:
    if asked.said:
        yield Cell(asked.said, "faint")
    if form_url:
        yield Cell(f"form: {form_url}")
    if asked.damaged and not asked.newer:
        yield Cell("put the event files right, or record what is missing and go on from there:", "faint")
        yield Cell(f"  {DAMAGED}", "command")
    if asked.look:
        yield Cell("see what would be approved, and what changed:", "faint")
        yield Cell(f"  {asked.look}", "command")
    for choice, command in asked.answers:
        yield Cell(f"{choice.label}:", "faint")
        yield Cell(f"  {command}", "command")
