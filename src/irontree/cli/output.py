"""The output of a verb, as values: blocks of lines and tables, stripped of control sequences, also as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from irontree.domain.text import one_line, printable

Style = Literal["", "title", "faint", "good", "bad", "busy", "asks", "command", "typed"]
"""`typed` is a command of ours that works as it stands: shown as it has to be typed here. `command` is any other."""
GAP = "  "
NOTHING = "-"


class Cell(NamedTuple):
    """One line of text and what it means."""

    text: str
    style: Style = ""


class Table(NamedTuple):
    """Rows under headings; the last column is the one that may be long."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    title: str = ""
    names: tuple[int, ...] = ()
    """The columns that say what a row is about, if other than the first and the last."""


class TextLines(NamedTuple):
    """Lines as they are, under an optional title; `framed` where the user has to decide something."""

    lines: tuple[Cell | str, ...]
    title: str = ""
    framed: bool = False


class Verbatim(NamedTuple):
    """Text of many lines, such as a diff, with its own line ends."""

    text: str
    title: str = ""
    language: str = "text"


OutputBlock = Table | TextLines | Verbatim


def listing(lines: Iterable[str], style: Style = "", title: str = "") -> Iterator[TextLines]:
    """A block of *lines* in that style; no block without lines."""
    if cells := tuple(Cell(line, style) for line in lines):
        yield TextLines(cells, title)


def next_commands(*commands: str) -> Iterator[TextLines]:
    """What to type next; no block if there is nothing."""
    return listing(filter(None, commands), "typed", "Next")


def soundness(findings: Iterable[str]) -> Iterator[TextLines]:
    """What an audit found after a restoration."""
    if found := tuple(findings):
        return listing(found, "bad", "The audit is not content")
    return listing(("The audit finds the whole log sound.",), "good")


def cell(value: Cell | str) -> Cell:
    """The cell itself, or the text as one without meaning."""
    return value if isinstance(value, Cell) else Cell(value)


def with_commands(block: OutputBlock, typed: Callable[[str], str]) -> OutputBlock:
    """The same with every command of ours as *typed* says it."""
    if not isinstance(block, TextLines):
        return block
    told = (Cell(typed(each.text), each.style) if each.style == "typed" else each for each in map(cell, block.lines))
    return block._replace(lines=tuple(told))


def plain(blocks: Iterable[OutputBlock]) -> Iterator[str]:
    """The lines of *blocks* as plain text, with an empty line between two blocks."""
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from _plain_block(block)


def _plain_block(block: OutputBlock) -> Iterator[str]:
    match block:
        case Table():
            yield from _titled(block.title, _columns([block.headings, *block.rows]), indent="")
        case TextLines():
            yield from _titled(block.title, (nested(cell(line).text) for line in block.lines))
        case Verbatim():
            yield from _titled(block.title, printable(block.text).rstrip("\n").split("\n"))


def _titled(title: str, lines: Iterable[str], indent: str = GAP) -> Iterator[str]:
    if title:
        yield f"{one_line(title)}:"
    yield from (f"{indent if title else ''}{line}" for line in lines)


def _columns(rows: Sequence[Sequence[Cell | str]]) -> Iterator[str]:
    """Rows aligned in columns, with a mark in empty cells; nothing is cut off."""
    texts = [[nested(cell(value).text) or NOTHING for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*texts, fillvalue="")]
    for row in texts:
        *most, last = row
        yield GAP.join([*(text.ljust(width) for text, width in zip(most, widths, strict=False)), last]).rstrip()


def nested(text: str) -> str:
    """*text* in one line behind its leading spaces, which show the depth in a tree."""
    return (" " * (len(text) - len(text.lstrip(" "))) if text.strip() else "") + one_line(text)
