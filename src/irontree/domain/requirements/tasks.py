"""Read the content under a task's heading: fields, criteria and their checks, commands; the rest is description.

Nothing is dropped: an unrecognised line stays in the description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from irontree.domain.command_lines import is_trivial, unshown
from irontree.domain.ids import normalize
from irontree.domain.plan import Criterion
from irontree.domain.requirements.markdown import MAX_TEXT, Findings, Item, MarkdownBlock, quoted
from irontree.domain.requirements.outline import (
    Kind,
    Labelled,
    OutlineEntry,
    Part,
    Text,
    checkbox_items,
    grouped,
    item_label,
    label_for_short,
    nearest_label,
    split_label,
)

_CODE: Final = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=ticks)(?!`)")
_MARK: Final = re.compile(
    rf"{_CODE.pattern}|(?P<manual>\(\s*manual\s*\))|\(\s*check:(?P<check>[^()]*)\)", re.IGNORECASE
)
_NEEDS: Final = r"(?:depends(?:\s+on|(?=\s+#\d))|depending\s+on|blocked\s+by)"
_LOOSE: Final = re.compile(
    rf"\(\s*{_NEEDS}:?\s+(?P<inside>[^()]+)\)|^\W*{_NEEDS}[*_]*\s+(?P<line>[^:]+)$", re.IGNORECASE | re.MULTILINE
)
"""A dependency as people write it without a field: `(depends on 2.1)`, or a line `Depends on Login`."""
_PROGRAMS: Final = frozenset(
    {
        *(
            "pytest",
            "python",
            "python3",
            "tox",
            "nox",
            "uv",
            "poetry",
            "ruff",
            "mypy",
            "npm",
            "npx",
            "pnpm",
            "yarn",
            "node",
        ),
        *(
            "deno",
            "bun",
            "tsc",
            "eslint",
            "jest",
            "vitest",
            "make",
            "just",
            "ninja",
            "ctest",
            "cargo",
            "go",
            "mvn",
            "gradle",
        ),
        *(
            "bundle",
            "rake",
            "rspec",
            "php",
            "composer",
            "dotnet",
            "swift",
            "mix",
            "bash",
            "sh",
            "docker",
            "curl",
            "grep",
        ),
    }
)


def parse_criterion(text: str) -> Criterion:
    """The criterion that *text* states, with its marks `(manual)`, `(check: NAME)` and a trailing `` `$ command` ``.

    An empty NAME is kept as an empty `check`, for the reader to refuse.
    """
    marks = [match for match in _MARK.finditer(text) if match["ticks"] is None]
    checks = [match["check"].strip() for match in marks if match["check"] is not None]
    stated = text
    for match in reversed(marks):
        before, after = stated[: match.start()].rstrip(), stated[match.end() :].lstrip()
        stated = f"{before}{'' if after.startswith((':', ';', ',', '.')) else ' '}{after}".strip()
    statement, command = _trailing_command(stated)
    return Criterion(
        text=statement or stated or text,
        manual=any(match["manual"] for match in marks),
        check=checks[0] if checks else None,
        command=command,
    )


def hides_a_command(criterion: Criterion) -> bool:
    """Whether the text holds a `` `$ command` `` that covers nothing because it is not at the end."""
    return any(command != criterion.command for _, command in _commands(criterion.text))


def parse_commands(line: str) -> tuple[str, ...]:
    """The commands of a line that begins with `$ ` (the rest of it) or with `` `$ command` `` (all of that form)."""
    stripped = line.strip()
    if stripped.startswith("$ "):
        return (stripped[2:].strip(),)
    found = list(_commands(stripped)) if stripped.startswith("`") else []
    return tuple(command for _, command in found) if found and found[0][0].start() == 0 else ()


def is_only_code(line: str) -> bool:
    """Whether the line is one code span, as when an author forgets the `$` of a command."""
    return re.fullmatch(r"(`+)[^`]+\1[\s.;]*", line.strip()) is not None


def unmarked_command(text: str) -> str:
    """The command at the end of a criterion whose author forgot its `$`; empty if there is none."""
    spans = list(_CODE.finditer(text))
    if not spans or text[spans[-1].end() :].strip(" .;"):
        return ""
    inside = spans[-1]["inside"].strip()
    program = inside.partition(" ")[0]
    return inside if program in _PROGRAMS or program.startswith("./") else ""


def _trailing_command(text: str) -> tuple[str, str | None]:
    """The text before the command at its end, and the command."""
    match, command = max(_commands(text), key=lambda found: found[0].end(), default=(None, None))
    if match is None or text[match.end() :].strip(" .;"):
        return text, None
    return text[: match.start()].rstrip(" :,;"), command


def _commands(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The code spans that hold `$ command`."""
    for match in _CODE.finditer(text):
        inside = match["inside"].strip()
        if inside.startswith("$ "):
            yield match, inside[2:].strip()


# --- Reading the content under a task's heading


@dataclass(frozen=True, slots=True)
class TaskText:
    """A task as written: its fields by kind, still as text, and all that can be read without other tasks."""

    entry: OutlineEntry
    fields: dict[Kind, Labelled]
    description: str
    criteria: tuple[Criterion, ...]
    verification: tuple[str, ...]
    loose: tuple[Text, ...] = ()
    """Names of tasks that it depends on, written without a field."""


def read_task(entry: OutlineEntry, lines: Sequence[str], findings: Findings) -> TaskText:
    """Read everything under the entry's heading and in its sections."""
    reader = _TaskReader(lines, findings)
    description = "\n\n".join([reader.read(part) for part in entry.parts])
    reader.look_for_dependencies(Text(entry.title, entry.start))
    return TaskText(
        entry,
        reader.fields,
        normalize(description),
        tuple(reader.criteria),
        tuple(reader.commands),
        tuple(reader.loose),
    )


def read_prose(parts: Sequence[Part], lines: Sequence[str]) -> str:
    """The text of parts that belong to no task."""
    used_up = {index for part in parts for block in part.blocks for index in _comment_lines(block)}
    texts = (_with_heading(part, (lines[i] for i in range(part.body, part.end) if i not in used_up)) for part in parts)
    return normalize("\n\n".join(texts))


def _with_heading(part: Part, lines: Iterable[str]) -> str:
    """The rest of a part, after its section's name: "Out of scope" must not read as in scope."""
    text = "\n".join(lines)
    if part.kind in (None, "description") or not text.strip():
        return text
    return f"**{part.label.rstrip(' :')}**\n\n{text}"


@dataclass(slots=True)
class _TaskReader:
    """Reads one task; *edits* maps lines of the document to their replacement, or to `None` once consumed."""

    document: Sequence[str]
    findings: Findings
    fields: dict[Kind, Labelled] = field(default_factory=dict)
    criteria: list[Criterion] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    edits: dict[int, str | None] = field(default_factory=dict)
    loose: list[Text] = field(default_factory=list)

    def look_for_dependencies(self, text: Text) -> None:
        """Note what *text* says of them without being a field."""
        self.loose += [Text(match["inside"] or match["line"], text.index) for match in _LOOSE.finditer(text.text)]

    def read(self, part: Part) -> str:
        """Read one part and return what is left of it."""
        for block in part.blocks:
            self.edits |= dict.fromkeys(_comment_lines(block))
        if part.kind is None:
            self._own_text(part.blocks)
        elif part.kind in ("description", "prose"):
            self._task_items(part.blocks)
        else:
            self._labelled(Labelled(part.kind, part.label, part.start, part.body, blocks=tuple(part.blocks)))
        left = (self.edits.get(index, self.document[index]) for index in range(part.body, part.end))
        return _with_heading(part, (line for line in left if line is not None))

    # --- finding the fields ---------------------------------------------------------------------------------

    def _own_text(self, blocks: Sequence[MarkdownBlock]) -> None:
        leading = True
        opened: Labelled | None = None
        for block in blocks:
            if opened and block.kind in ("list", "fence"):
                opened = replace(opened, blocks=(*opened.blocks, block))
                continue
            self._labelled(opened)
            opened = None
            if block.kind == "paragraph":
                leading, opened = self._paragraph(block, leading=leading)
            elif block.kind == "list":
                leading = self._list(block, leading=leading)
            else:
                leading = leading and block.kind == "comment"
        self._labelled(opened)

    def _paragraph(self, block: MarkdownBlock, *, leading: bool) -> tuple[bool, Labelled | None]:
        """Whether all text so far is fields, and a label at the end that still waits for its list."""
        fields, others = grouped(block)
        waiting = fields.pop() if fields and not others and not fields[-1].own_texts() else None
        for labelled in fields:
            self._labelled(labelled)
        beside_fields = leading and (bool(fields) or any(map(_is_nearly_a_field, others)))
        for other in others:
            self._unknown_label(other, beside_fields=beside_fields)
        return leading and not others, waiting

    def _list(self, block: MarkdownBlock, *, leading: bool) -> bool:
        """Whether all text so far is fields: a list is read for them only right under the heading."""
        labels = [item_label(item) for item in block.items]
        beside_fields = leading and any(labels)
        for item, labelled in zip(block.items, labels, strict=True):
            if labelled and leading:
                self._labelled(labelled)
                continue
            self._task_items([replace(block, items=(item,))])
            if labelled is None and not beside_fields:
                self.look_for_dependencies(Text(item.text, item.start))
            if labelled:
                self._unread_field(labelled)
            elif beside_fields:
                self._unknown_label(Text(item.text, item.start), beside_fields=True)
        return leading and all(labels)

    def _unknown_label(self, text: Text, *, beside_fields: bool) -> None:
        self.look_for_dependencies(text)
        label, _ = split_label(text.text) or ("", "")
        nearest = nearest_label(label) or (label_for_short(label) if beside_fields else None)
        if nearest or (label and beside_fields):
            remedy = f"Did you mean '{nearest}'?" if nearest else "It stays in the description"
            self.findings.warn(text.index, f"{quoted(label)} is no field", remedy)

    def _unread_field(self, labelled: Labelled) -> None:
        self.findings.warn(
            labelled.start,
            f"{quoted(labelled.label)} stands in a list behind other text, where fields are not read",
            "If it is meant as a field, move the list right under the heading",
        )

    # --- reading them ---------------------------------------------------------------------------------------

    def _labelled(self, labelled: Labelled | None) -> None:
        if labelled is None:
            return
        for block in labelled.blocks:
            if block.kind == "heading":
                self._use_up(block.start, block.end)
        match labelled.kind:
            case "criteria":
                self._criteria(labelled)
            case "verification":
                self._verification(labelled)
            case "description":
                self._use_up(labelled.start, labelled.end)
                self.edits[labelled.start] = labelled.value
            case _:
                self._field(labelled)

    def _field(self, labelled: Labelled) -> None:
        texts = labelled.texts()
        fits = all(self._fits(text) for text in texts)
        first = self.fields.setdefault(labelled.kind, labelled) if fits else labelled
        if first is not labelled:
            self.findings.refuse(
                labelled.start,
                f"{quoted(labelled.label)} is given twice, first at line {self.findings.line(first.start)}",
                "Keep one of them",
            )
        if not any(text.text for text in texts):
            self.findings.refuse(
                labelled.start, f"{quoted(labelled.label)} has no value", "Give it one, or delete the line"
            )
        self._use_up(labelled.start, labelled.end + len(labelled.lines))
        for block in labelled.blocks:
            self._use_up(block.start, block.end)

    def _criteria(self, labelled: Labelled) -> None:
        self._use_up(labelled.start, labelled.end + len(labelled.lines))
        for text in labelled.own_texts():
            self._criterion(text)
        for block in labelled.blocks:
            for item in block.items:
                self._item_criterion(item)
                self._task_items(item.blocks)

    def _task_items(self, blocks: Sequence[MarkdownBlock]) -> None:
        for item in checkbox_items(blocks):
            self._item_criterion(item)

    def _item_criterion(self, item: Item) -> None:
        """An item with its plain sub-items is one criterion; one that holds more stays in the description too."""
        if all(block.kind == "list" for block in item.blocks):
            self._use_up(item.start, item.end)
        details = "; ".join(_plain_texts(item.blocks))
        text = f"{item.text.rstrip(':')}: {details}" if details else item.text
        self._criterion(Text(text, item.start))

    def _criterion(self, text: Text) -> None:
        if not text.text:
            self.findings.refuse(text.index, "an acceptance criterion without text", "Say what must hold, or delete it")
        elif self._fits(text):
            self.criteria.append(parse_criterion(text.text))
            self._check_criterion(self.criteria[-1], text.index)
        else:
            self.criteria.append(Criterion(text=text.text))

    def _check_criterion(self, criterion: Criterion, index: int) -> None:
        if criterion.check == "":
            self.findings.refuse(index, "'(check: )' names no check", "Name a configured check, or delete the mark")
        if criterion.command:
            self._check_command(Text(criterion.command, index))
        elif hides_a_command(criterion):
            self.findings.warn(
                index,
                "a command inside a criterion covers it only at the end",
                "Move the `$ command` to the end of the criterion",
            )
        elif command := unmarked_command(criterion.text):
            self.findings.warn(
                index, f"{quoted(command)} is not run: a command begins with '$ '", f"Write `$ {command}`"
            )

    def _verification(self, labelled: Labelled) -> None:
        if not labelled.value:
            self._use_up(labelled.start, labelled.end)
        for text in labelled.own_texts():
            self._command_line(text)
        for block in labelled.blocks:
            self._command_block(block)

    def _command_block(self, block: MarkdownBlock) -> None:
        if block.kind == "fence":
            self._console(block)
            return
        for index, line in block.numbered():
            self._command_line(Text(line, index))
        for item in block.items:
            if item.checkbox:
                self._task_items([replace(block, items=(item,))])
            else:
                self._command_item(item)

    def _command_item(self, item: Item) -> None:
        self._command_line(Text(item.text, item.start), end=item.blocks[0].start if item.blocks else item.end)
        for block in item.blocks:
            self._command_block(block)

    def _console(self, fence: MarkdownBlock) -> None:
        """The lines of a fence that begin with `$ `; the others are what the commands print."""
        commands = [Text(line, index) for index, line in fence.numbered() if line.lstrip().startswith("$ ")]
        if not commands:
            self._no_command(fence.start)
            return
        self._use_up(fence.start, fence.end)
        for command in commands:
            self._command_line(command)

    def _command_line(self, text: Text, end: int | None = None) -> None:
        commands = parse_commands(text.text) if self._fits(text) else ()
        if commands:
            self._use_up(text.index, end or text.index + 1)
            self.commands += commands
        elif is_only_code(text.text):
            self._no_command(text.index)
        for command in commands:
            self._check_command(Text(command, text.index))

    def _no_command(self, index: int) -> None:
        self.findings.warn(index, "nothing is run of this: a command begins with '$ '", "Write `$ command`")

    def _check_command(self, command: Text) -> None:
        if command.text.endswith("\\"):
            self.findings.refuse(
                command.index, "a command that goes on behind a backslash", "Write the command on one line"
            )
        if found := unshown(command.text):
            what, remedy = found
            self.findings.refuse(command.index, f"a command with {what}", remedy)
        if is_trivial(command.text):
            self.findings.warn(
                command.index, f"{quoted(command.text)} cannot fail, so it proves nothing", "Name a command that can"
            )

    def _fits(self, text: Text) -> bool:
        if len(text.text) > MAX_TEXT:
            what = f"a field, criterion or command of {len(text.text):,} characters"
            self.findings.refuse(text.index, what, f"Keep it within {MAX_TEXT:,}; a field may be a list")
        return len(text.text) <= MAX_TEXT

    def _use_up(self, start: int, end: int) -> None:
        self.edits |= dict.fromkeys(range(start, end))


def _is_nearly_a_field(text: Text) -> bool:
    label, _ = split_label(text.text) or ("", "")
    return nearest_label(label) is not None


def _comment_lines(block: MarkdownBlock) -> range:
    return range(block.start, block.end if block.kind == "comment" else block.start)


def _plain_texts(blocks: Sequence[MarkdownBlock]) -> Iterator[str]:
    for block in blocks:
        for item in block.items:
            if not item.checkbox:
                yield item.text
                yield from _plain_texts(item.blocks)
