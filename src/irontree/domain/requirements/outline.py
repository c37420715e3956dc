"""The tree of headings, the names with a meaning in it, and labels such as `Type: bug`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final, Literal

from irontree.domain.requirements.markdown import (
    Findings,
    Item,
    MarkdownBlock,
    MarkdownDocument,
    MarkdownSection,
    quoted,
)

Kind = Literal[
    "type", "priority", "key", "depends_on", "target_files", "description", "criteria", "verification", "prose"
]

_NAMES: Final[dict[Kind, tuple[str, ...]]] = {
    "type": ("type", "类型"),
    "priority": ("priority", "优先级"),
    "key": ("key",),
    "depends_on": ("depends on", "depends", "dependencies", "blocked by", "依赖", "依赖于", "前置任务"),
    "target_files": ("target files", "files", "目标文件", "涉及文件", "文件"),
    "description": ("description", "summary", "描述", "问题描述", "摘要"),
    "criteria": (
        *("acceptance criteria", "acceptance", "criteria", "definition of done", "done when"),
        *("验收标准", "验收条件", "验收", "完成标准", "完成条件", "完成定义"),
    ),
    "verification": (
        *("verification", "verification commands", "checks"),
        *("验证", "验证命令", "验证方式", "验证方法", "检查"),
    ),
    "prose": (
        *("overview", "introduction", "background", "context", "motivation", "rationale", "goals", "non goals"),
        *("out of scope", "assumptions", "constraints", "risks", "notes", "details", "open questions", "questions"),
        *("references", "links", "see also", "glossary", "appendix"),
        *("概述", "背景", "上下文", "动机", "目标", "非目标", "范围外", "不在范围内", "假设", "约束", "风险"),
        *("备注", "说明", "详情", "待解决问题", "问题", "参考", "参考资料", "链接", "术语表", "附录"),
    ),
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names}
_LABELS: Final = [name for name, kind in _KINDS.items() if kind != "prose"]
_SHORTEST: Final = 3
"""Minimum letters of an abbreviated label."""


NUMBERED: Final = re.compile(r"(?P<number>\d+(?:\.\d+)*)[.)]?\s+(?P<name>\S.*)", re.DOTALL)
"""A heading with its number: `2.1 Log in`."""


def kind_of(name: str) -> Kind | None:
    """The kind of a heading or label with this name, numbered or not; `None` if it has no special meaning."""
    numbered = NUMBERED.fullmatch(name)
    return _KINDS.get(_folded(numbered["name"] if numbered else name))


def nearest_label(name: str) -> str | None:
    """The label that *name* probably misspells, if one is close."""
    close = get_close_matches(_folded(name), _LABELS, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def label_for_short(name: str) -> str | None:
    """The label that *name* abbreviates: `Prio`."""
    short = _folded(name)
    return next((label.capitalize() for label in _LABELS if len(short) >= _SHORTEST and label.startswith(short)), None)


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip(" :\uff1a").casefold()


# --- Labels in a task's text


_NAME: Final = r"[A-Za-z\u4e00-\u9fff][A-Za-z\u4e00-\u9fff _-]{0,30}?"
_COLON: Final = r"[:\uff1a]"
_LABEL: Final = re.compile(
    rf"(?:(?P<mark>\*\*|__|\*|_)(?P<marked>{_NAME})(?:{_COLON}\s*(?P=mark)|(?P=mark)\s*{_COLON})"
    rf"|(?P<plain>{_NAME})\s*{_COLON})\s*(?P<value>.*)"
)
_PARENT: Final = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?(?:\*\*)?parent(?:\*\*)?[:\uff1a]?(?:\*\*)?[ \t]+#([1-9]\d{0,9})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BOLD: Final = re.compile(rf"(?P<mark>\*\*|__)(?P<name>{_NAME})(?P=mark)")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text and the line it begins at."""

    text: str
    index: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label on the lines from *start* to *end*, with its value beside it, on the next lines, or in *blocks*."""

    kind: Kind
    label: str
    start: int
    end: int
    value: str = ""
    lines: tuple[Text, ...] = ()
    blocks: tuple[MarkdownBlock, ...] = ()

    def own_texts(self) -> list[Text]:
        """The value beside the label and on the following lines."""
        return [*([Text(self.value, self.start)] if self.value else []), *self.lines]

    def texts(self) -> list[Text]:
        """The whole value, piece by piece: lines, and list items at any depth."""
        return [*self.own_texts(), *_block_texts(self.blocks)]


def parent_issue(text: str) -> int | None:
    """The issue that a line `Parent: #3` of *text* names; None if none does."""
    found = _PARENT.search(text)
    return int(found[1]) if found else None


def split_label(text: str) -> tuple[str, str] | None:
    """Label and value of a line in the form of a field, whether or not the label is known."""
    match = _LABEL.fullmatch(text) or _BOLD.fullmatch(text)
    if match is None:
        return None
    if match.re is _BOLD:
        return match["name"], ""
    return match["marked"] or match["plain"], match["value"]


def grouped(paragraph: MarkdownBlock) -> tuple[list[Labelled], list[Text]]:
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


def _block_texts(blocks: Sequence[MarkdownBlock]) -> Iterator[Text]:
    for block in blocks:
        yield from (Text(line, index) for index, line in block.numbered())
        for item in block.items:
            yield Text(item.text, item.start)
            yield from _block_texts(item.blocks)


# --- The tree of headings


@dataclass(slots=True)
class Part:
    """The content under one heading: a task's own text (*kind* is `None`), or one of its sections."""

    kind: Kind | None
    label: str
    level: int
    start: int
    body: int
    end: int
    blocks: list[MarkdownBlock]


@dataclass(slots=True)
class OutlineEntry:
    """A task in the document; *path* holds the titles from the outermost task, *parent* is the parent's entry."""

    title: str
    level: int
    start: int
    parent: OutlineEntry | None
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outline:
    """The document's title, the parts that belong to no task, and its tasks in their order."""

    title: str
    introduction: tuple[Part, ...]
    entries: tuple[OutlineEntry, ...]


def outline(document: MarkdownDocument, findings: Findings) -> Outline:
    """The document's tree. A single first H1 with tasks below it is the title, all other headings are tasks."""
    entries = _entries(document)
    introduction = [preamble_of(document, len(findings.numbers))]
    title = ""
    if _has_title(entries):
        first = entries.pop(0)
        title = first.title
        introduction += first.parts
        for entry in entries:
            entry.parent = None if entry.parent is first else entry.parent
    _check_introduction(introduction, findings)
    return Outline(title, tuple(introduction), tuple(entries))


def checkbox_items(blocks: Sequence[MarkdownBlock]) -> Iterator[Item]:
    """All task-list items, outer ones first."""
    for block in blocks:
        for item in block.items:
            if item.checkbox:
                yield item
            yield from checkbox_items(item.blocks)


def _entries(document: MarkdownDocument) -> list[OutlineEntry]:
    """All headings that are not sections of another one, the title still among them."""
    entries: list[OutlineEntry] = []
    open_part: Part | None = None
    for section in document.sections:
        owner = _owner(entries, section.level)
        kind = kind_of(section.title) if owner else None
        if open_part and section.level > open_part.level:
            extend(open_part, section)
        elif owner and kind:
            open_part = part_of(section, kind)
            owner.parts.append(open_part)
        else:
            open_part = None
            entries.append(OutlineEntry(section.title, section.level, section.start, owner, [part_of(section, None)]))
    return entries


def _owner(entries: list[OutlineEntry], level: int) -> OutlineEntry | None:
    """The innermost task still open above a heading of this level."""
    entry = entries[-1] if entries else None
    while entry and entry.level >= level:
        entry = entry.parent
    return entry


def preamble_of(document: MarkdownDocument, end: int) -> Part:
    """What stands before the first heading; *end* is that of the document."""
    until = document.sections[0].start if document.sections else end
    return Part(None, "", 0, 0, 0, until, list(document.preamble))


def part_of(section: MarkdownSection, kind: Kind | None) -> Part:
    """The content under that heading, up to the next one."""
    return Part(kind, section.title, section.level, section.start, section.body, section.end, list(section.blocks))


def extend(part: Part, section: MarkdownSection) -> None:
    """Treat a heading below a section's heading as text of that section."""
    part.blocks += [MarkdownBlock("heading", section.start, section.body), *section.blocks]
    part.end = section.end


def _has_title(entries: list[OutlineEntry]) -> bool:
    return len(entries) > 1 and [entry.level for entry in entries].count(1) == 1 and entries[0].level == 1


def _check_introduction(parts: list[Part], findings: Findings) -> None:
    """Report sections, criteria and fields that belong to no task, so that they are not lost in other text."""
    for part in parts:
        if part.kind not in (None, "description", "prose"):
            findings.refuse(
                part.start,
                f"the section {quoted(part.label)} belongs to no task",
                "Give it a deeper heading than its task has, or another name if it is a task",
            )
            continue
        for item in checkbox_items(part.blocks):
            findings.refuse(
                item.start,
                "an acceptance criterion that belongs to no task",
                "Move it under the heading of its task, or make it a plain list item",
            )
        if part.kind is None:
            _warn_of_fields(part, findings)


def _warn_of_fields(part: Part, findings: Findings) -> None:
    for block in part.blocks:
        for labelled in grouped(block)[0]:
            if labelled.kind != "description":
                findings.warn(
                    labelled.start,
                    f"{quoted(labelled.label)} stands in the document's introduction, where fields are not read",
                    "If it is meant as a field, move it under the heading of its task",
                )
