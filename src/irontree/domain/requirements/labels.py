"""Labels in a task's text: `Type: bug`, `**Depends on:** A, B`, `- Priority: high`, and what belongs to each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from irontree.domain.requirements.names import Kind, kind_of

if TYPE_CHECKING:
    from irontree.domain.requirements.markdown import Block, Item

_NAME: Final = r"[A-Za-z\u4e00-\u9fff][A-Za-z\u4e00-\u9fff _-]{0,30}?"
_COLON: Final = r"[:\uff1a]"
_LABEL: Final = re.compile(
    rf"(?:(?P<mark>\*\*|__|\*|_)(?P<marked>{_NAME})(?:{_COLON}\s*(?P=mark)|(?P=mark)\s*{_COLON})"
    rf"|(?P<plain>{_NAME})\s*{_COLON})\s*(?P<value>.*)"
)
_BOLD: Final = re.compile(rf"(?P<mark>\*\*|__)(?P<name>{_NAME})(?P=mark)")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text and the line it begins at."""

    text: str
    index: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label, at the lines from *start* to *end*, and its value: beside it, on the next lines, or in *blocks*."""

    kind: Kind
    label: str
    start: int
    end: int
    value: str = ""
    lines: tuple[Text, ...] = ()
    blocks: tuple[Block, ...] = ()

    def own_texts(self) -> list[Text]:
        """The value beside the label and on the lines that follow it."""
        return [*([Text(self.value, self.start)] if self.value else []), *self.lines]

    def texts(self) -> list[Text]:
        """The whole value, piece by piece: lines, and list items at any depth."""
        return [*self.own_texts(), *_block_texts(self.blocks)]


def split_label(text: str) -> tuple[str, str] | None:
    """Label and value of a line that has the form of a field, whatever the label is."""
    match = _LABEL.fullmatch(text) or _BOLD.fullmatch(text)
    if match is None:
        return None
    if match.re is _BOLD:
        return match["name"], ""
    return match["marked"] or match["plain"], match["value"]


def grouped(paragraph: Block) -> tuple[list[Labelled], list[Text]]:
    """A paragraph's fields, and its other lines. Lines after a label without a value are its value."""
    fields: list[Labelled] = []
    others: list[Text] = []
    for index, line in paragraph.numbered():
        found = _labelled(line, index, index + 1)
        if found:
            fields.append(found)
        elif fields and not others and not fields[-1].value:
            fields[-1] = replace(fields[-1], lines=(*fields[-1].lines, Text(line, index)))
        else:
            others.append(Text(line, index))
    return fields, others


def item_label(item: Item) -> Labelled | None:
    """The field that a list item is."""
    if item.checkbox:
        return None
    end = item.blocks[0].start if item.blocks else item.end
    found = _labelled(item.text, item.start, end)
    return replace(found, blocks=item.blocks) if found else None


def _labelled(text: str, start: int, end: int) -> Labelled | None:
    label, value = split_label(text) or ("", "")
    kind = kind_of(label)
    return Labelled(kind, label, start, end, value) if kind and kind != "prose" else None


def _block_texts(blocks: Sequence[Block]) -> Iterator[Text]:
    for block in blocks:
        yield from (Text(line, index) for index, line in block.numbered())
        for item in block.items:
            yield Text(item.text, item.start)
            yield from _block_texts(item.blocks)
