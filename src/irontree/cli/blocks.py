"""What a verb shows, as values, printed as plain text or with Rich; foreign text is made harmless for a terminal.

`Style` says what a text means; only the terminal knows what that looks like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

from irontree.domain.text import harmless

# --- Text by people and programs, made harmless for a terminal


_DIRECTIONS: Final = {0x200E: None, 0x200F: None}


def printable(text: str) -> str:
    """*text* without escape sequences, control characters and marks of direction; lines and tabs stay."""
    return harmless(text).translate(_DIRECTIONS)


def one_line(text: str) -> str:
    """All of *text* in one line."""
    return " ".join(printable(text).split())


def short_sha(code_ref: str | None) -> str:
    """A commit as people name it; empty for none."""
    if code_ref is None or code_ref == "not_applicable":
        return ""
    return code_ref[:7]


# --- What a verb shows, as values: the console prints them as plain text, or with Rich on a terminal


Style = Literal["", "title", "faint", "good", "bad", "busy", "asks", "command"]
GAP = "  "
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of text and what it means."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; the last column is the one that may be long."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class TextLines:
    """Lines as they are, under a title if there is one; `framed` where a person has to decide something."""

    lines: tuple[Cell | str, ...]
    title: str = ""
    framed: bool = False


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text of many lines, such as a diff, with its own line ends."""

    text: str
    title: str = ""
    language: str = "text"


OutputBlock = Table | TextLines | Verbatim


def cell(value: Cell | str) -> Cell:
    """The cell itself, or the text as one without meaning."""
    return value if isinstance(value, Cell) else Cell(value)


def plain(blocks: Iterable[OutputBlock]) -> Iterator[str]:
    """The lines of *blocks* as plain text, an empty one between two blocks."""
    first = True
    for block in blocks:
        if not first:
            yield ""
        first = False
        yield from _plain_block(block)


def _plain_block(block: OutputBlock) -> Iterator[str]:
    match block:
        case Table():
            yield from _titled(block.title, _columns([block.headings, *block.rows]), indent="")
        case TextLines():
            yield from _titled(block.title, (_indented(cell(line).text) for line in block.lines))
        case Verbatim():
            yield from _titled(block.title, printable(block.text).rstrip("\n").split("\n"))


def _titled(title: str, lines: Iterable[str], indent: str = GAP) -> Iterator[str]:
    if title:
        yield f"{one_line(title)}:"
    yield from (f"{indent if title else ''}{line}" for line in lines)


def _columns(rows: Sequence[Sequence[Cell | str]]) -> Iterator[str]:
    """Columns of one width each, with a mark in empty cells; nothing is cut off."""
    texts = [[_indented(cell(value).text) or NOTHING for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*texts, fillvalue="")]
    for row in texts:
        *most, last = row
        yield GAP.join([*(text.ljust(width) for text, width in zip(most, widths, strict=False)), last]).rstrip()


def _indented(text: str) -> str:
    return indentation(text) + one_line(text)


def indentation(text: str) -> str:
    """The spaces at its beginning, which show how deep something is in a tree; none where nothing follows."""
    return " " * (len(text) - len(text.lstrip(" "))) if text.strip() else ""
