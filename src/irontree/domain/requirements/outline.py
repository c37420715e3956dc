"""The tree that headings make: which are tasks, which are sections of a task, which is the document's title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from irontree.domain.requirements.findings import Findings, quoted
from irontree.domain.requirements.labels import grouped
from irontree.domain.requirements.markdown import Block, Document, Item, Section
from irontree.domain.requirements.names import Kind, kind_of


@dataclass(slots=True)
class Part:
    """A stretch under one heading: a task's own text (*kind* None), or one of its sections."""

    kind: Kind | None
    label: str
    level: int
    start: int
    body: int
    end: int
    blocks: list[Block]


@dataclass(slots=True)
class Entry:
    """A task as the document has it; *path* are the titles from the outermost task, *parent* its entry."""

    title: str
    level: int
    start: int
    parent: Entry | None
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outline:
    """The document's title, the parts that belong to no task, and its tasks in their order."""

    title: str
    introduction: tuple[Part, ...]
    entries: tuple[Entry, ...]


def outline(document: Document, findings: Findings) -> Outline:
    """The document's tree. A single first H1 with tasks below it is the title, all other headings are tasks."""
    entries = _entries(document)
    end = document.sections[0].start if document.sections else len(findings.numbers)
    introduction = [Part(None, "", 0, 0, 0, end, list(document.preamble))]
    title = ""
    if _has_title(entries):
        first = entries.pop(0)
        title = first.title
        introduction += first.parts
        for entry in entries:
            entry.parent = None if entry.parent is first else entry.parent
    _check_introduction(introduction, findings)
    return Outline(title, tuple(introduction), tuple(entries))


def checkbox_items(blocks: Sequence[Block]) -> Iterator[Item]:
    """All task-list items, outer ones first."""
    for block in blocks:
        for item in block.items:
            if item.checkbox:
                yield item
            yield from checkbox_items(item.blocks)


def _entries(document: Document) -> list[Entry]:
    """All headings that are not sections of another one, the title still among them."""
    entries: list[Entry] = []
    open_part: Part | None = None
    for section in document.sections:
        owner = _owner(entries, section.level)
        kind = kind_of(section.title) if owner else None
        if open_part and section.level > open_part.level:
            _extend(open_part, section)
        elif owner and kind:
            open_part = _part(section, kind)
            owner.parts.append(open_part)
        else:
            open_part = None
            entries.append(Entry(section.title, section.level, section.start, owner, [_part(section, None)]))
    return entries


def _owner(entries: list[Entry], level: int) -> Entry | None:
    """The innermost task still open above a heading of this level."""
    entry = entries[-1] if entries else None
    while entry and entry.level >= level:
        entry = entry.parent
    return entry


def _part(section: Section, kind: Kind | None) -> Part:
    return Part(kind, section.title, section.level, section.start, section.body, section.end, list(section.blocks))


def _extend(part: Part, section: Section) -> None:
    """A heading below a section's heading is text of that section."""
    part.blocks += [Block("heading", section.start, section.body), *section.blocks]
    part.end = section.end


def _has_title(entries: list[Entry]) -> bool:
    return len(entries) > 1 and [entry.level for entry in entries].count(1) == 1 and entries[0].level == 1


def _check_introduction(parts: list[Part], findings: Findings) -> None:
    """What only a task can have must not get lost in the text around them."""
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
