"""Blocks on a terminal, with Rich: the only module of the read-only verbs that imports it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TextIO

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table as RichTable
from rich.text import Text

from irontree.cli.output import Cell, OutputBlock, Style, Table, TextLines, Verbatim, cell, nested
from irontree.domain.text import one_line, printable

STYLES: Final[dict[Style, str]] = {
    "": "",
    "title": "bold",
    "faint": "dim",
    "good": "green",
    "bad": "red",
    "busy": "cyan",
    "asks": "yellow",
    "command": "bold cyan",
    "typed": "bold cyan",
}
READABLE: Final = 24
"""Minimum width of a table's last cell in columns, if its text is that long."""
_GAP: Final = 3
_ANY_HEIGHT: Final = 25


def draw(blocks: Iterable[OutputBlock], out: TextIO, *, width: int | None = None, force: bool = False) -> None:
    """Draw *blocks* on the terminal *out*; NO_COLOR and the encoding of *out* are respected.

    *width* in columns overrides the terminal's own; *force* is for an *out* that is no terminal.
    """
    # With TERM=dumb, Rich accepts a width only together with a height.
    height = _ANY_HEIGHT if width else None
    console = Console(file=out, width=width, height=height, force_terminal=force or None, highlight=False)
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(_drawn(block, console.width))


def _drawn(block: OutputBlock, width: int) -> RenderableType:
    match block:
        case Table():
            return _table(block, width)
        case TextLines():
            return _lines(block)
        case Verbatim():
            text = printable(block.text).rstrip("\n")
            return _under(block.title, Syntax(text, block.language, theme="ansi_dark", background_color="default"))


def _table(block: Table, width: int) -> RenderableType:
    """The table; each row takes two lines if the columns would leave the last one too narrow."""
    if not _fits(block, width):
        return _under(block.title, Group(*(_stacked(row, block.names) for row in block.rows)))
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    for number, heading in enumerate(block.headings):
        last = number == len(block.headings) - 1
        drawn.add_column(heading, no_wrap=not last, overflow="fold" if last else "ellipsis")
    for row in block.rows:
        drawn.add_row(*(_text(value) for value in row))
    return _under(block.title, drawn)


def _fits(block: Table, width: int) -> bool:
    """Whether the last column is wide enough to read."""
    columns = zip(*([_text(value).cell_len for value in row] for row in (block.headings, *block.rows)), strict=True)
    widths: list[int] = [max(column) for column in columns]
    *most, last = widths
    return width - sum(most) - _GAP * len(most) >= min(last, READABLE)


def _stacked(row: tuple[Cell | str, ...], names: tuple[int, ...]) -> RenderableType:
    """The columns that *names* says above the others: else the first and the last, or of only two the first."""
    named = names or ((0, len(row) - 1) if row[2:] else (0,))
    heading = Text(" ").join(_text(row[at]) for at in named)
    rest = [_text(value) for at, value in enumerate(row) if at not in named and cell(value).text.strip()]
    return Group(heading, Padding(Text("  ").join(rest), (0, 0, 0, 3))) if rest else heading


def _lines(block: TextLines) -> RenderableType:
    body = Group(*(_text(line) for line in block.lines))
    if block.framed:
        return Panel(body, title=Text(one_line(block.title)), title_align="left", box=ROUNDED, border_style="yellow")
    return _under(block.title, body)


def _under(title: str, body: RenderableType) -> RenderableType:
    return Group(Text(one_line(title), style="bold"), body) if title else body


def _text(value: Cell | str) -> Text:
    found = cell(value)
    return Text(nested(found.text), style=STYLES[found.style])
