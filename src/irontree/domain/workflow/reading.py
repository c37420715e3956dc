"""A HOTL workflow file as it is written: front matter, step headers, their fields, the context below them.

It is read line by line, and no text is refused here: `lint.py` says what is wrong, and `workflow.py` gives the values
their types. Lines are indexes from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple

from irontree.domain.requirements.markdown import lines_hidden

STEP_KEYS: Final = ("action", "loop", "max_iterations", "verify", "gate")
"""The fields of a step."""
FENCE: Final = "---"
MOST_BYTES: Final = 1024 * 1024
"""Workflow files are larger only by mistake."""
_BOXED: Final = re.compile(r"- \[[ xX]\] \*\*Step ([0-9]{1,6}):(.*)")
_HEADED: Final = re.compile(r"### ([0-9]{1,6})\.(.*)")
_HEADING: Final = re.compile(r" {0,3}#{1,3}(?:[ \t]|$)")
"""As high as the heading of a step, or higher."""
_KEY: Final = re.compile(r"[A-Za-z][\w -]{0,39}")
_COMMENT: Final = re.compile(r"\s#(?:\s|$)")
_QUOTED: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_LITERAL: Final = ("|", "|-", "|+")
"""What announces a value of several lines."""
BOX_COLUMN: Final = 3
"""Where the character of a box stands in its line."""


class Line(NamedTuple):
    """A line and its place."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """`key: value`, the key in lower case; *block* is the indented lines below a `verify:` that has no value."""

    key: str
    value: str
    line: int
    block: tuple[Line, ...] = ()


class Fields(tuple[Field, ...]):
    """Fields in their order; of several with one name the first counts."""

    __slots__ = ()

    def first(self, key: str) -> Field | None:
        """The first field of that name."""
        return next((each for each in self if each.key == key), None)

    def written(self, key: str) -> str:
        """Its value as it is written; empty if there is none."""
        found = self.first(key)
        return found.value if found else ""

    def line(self, key: str) -> int:
        """Where it stands; the first line of the file if it does not."""
        found = self.first(key)
        return found.line if found else 0

    def value(self, key: str) -> str:
        """Its value without comment and quotes."""
        return bare(self.written(key))


@dataclass(frozen=True, slots=True)
class WrittenStep:
    """A step, up to the line *end*; *ticked* is None under a heading, which has no box.

    *prose* is everything in it that is no field.
    """

    number: int
    name: str
    line: int
    ticked: bool | None
    fields: Fields
    prose: tuple[Line, ...]
    end: int


@dataclass(frozen=True, slots=True)
class WrittenWorkflow:
    """A whole file. *begins* says whether there is front matter, *closed* whether it ends."""

    lines: tuple[str, ...]
    front: Fields
    begins: bool
    closed: bool
    steps: tuple[WrittenStep, ...]
    hidden: frozenset[int]
    """The lines that are code or comments."""
    body: int
    """The line below the front matter."""

    @property
    def common(self) -> tuple[str, ...]:
        """The lines that belong to no step: the introduction, and the sections between and behind the steps."""
        begins = (self.body, *(step.end for step in self.steps))
        ends = (*(step.line for step in self.steps), len(self.lines))
        return tuple(line for begin, end in zip(begins, ends, strict=True) for line in (*self.lines[begin:end], ""))


def read(text: str) -> WrittenWorkflow:
    """Read a workflow file; any text is one."""
    lines = tuple(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    end = _front_end(lines)
    body = [*[""] * (end + 1), *lines[end + 1 :]] if end else list(lines)
    hidden = lines_hidden(body)
    front = Fields(_pairs(lines[1:end], 1))
    steps = tuple(_steps(body, hidden))
    return WrittenWorkflow(lines, front, lines[0].startswith(FENCE), end > 0, steps, hidden, end + 1 if end else 0)


def bare(value: str) -> str:
    """A value without the comment behind it and without its quotes."""
    value = value.strip()
    quoted = _QUOTED.match(value)
    if quoted and (not value[quoted.end() :].strip() or _COMMENT.match(value[quoted.end() :])):
        return quoted[1] if quoted[1] is not None else quoted[2]
    comment = _COMMENT.search(f" {value}")
    return value[: max(comment.start() - 1, 0)].rstrip() if comment else value


@lru_cache(maxsize=256)  # a file has few keys, each many times
def meant(key: str, known: tuple[str, ...]) -> str | None:
    """The one of *known* that *key* misspells, if one is close; nearer than `date` and `gate` are."""
    return next(iter(get_close_matches(re.sub(r"[ -]", "_", key.lower()), known, n=1, cutoff=0.8)), None)


def pair(text: str) -> tuple[str, str] | None:
    """The key, in lower case, and the value of a line `key: value`; None for any other line."""
    key, colon, value = text.partition(":")
    return (key.strip().lower(), value.strip()) if colon and _KEY.fullmatch(key.strip()) else None


def _front_end(lines: Sequence[str]) -> int:
    """The line that closes the front matter; 0 without one. Only the first block counts."""
    if lines[0].rstrip() != FENCE:
        return 0
    return next((index for index, line in enumerate(lines) if index and line.rstrip() == FENCE), 0)


def _pairs(lines: Sequence[str], first: int) -> Iterator[Field]:
    for index, line in enumerate(lines, first):
        found = pair(line) if line[:1].isalpha() else None
        if found:
            yield Field(*found, index)


def _header(line: str) -> tuple[int, str, bool | None] | None:
    boxed = _BOXED.match(line)
    if boxed:
        name = boxed[2].rpartition("**")[0] if "**" in boxed[2] else boxed[2]
        return int(boxed[1]), name.strip(), line[BOX_COLUMN] != " "
    headed = _HEADED.match(line)
    return (int(headed[1]), headed[2].strip(), None) if headed else None


def _steps(lines: Sequence[str], hidden: frozenset[int]) -> Iterator[WrittenStep]:
    found = [(index, header) for index, line in enumerate(lines) if index not in hidden and (header := _header(line))]
    ends = [*(index for index, _ in found[1:]), len(lines)]
    for (index, (number, name, ticked)), end in zip(found, ends, strict=False):
        fields, prose, at = _body(lines, index + 1, end, hidden)
        yield WrittenStep(number, name, index, ticked, fields, prose, at)


def _body(lines: Sequence[str], start: int, end: int, hidden: frozenset[int]) -> tuple[Fields, tuple[Line, ...], int]:
    """Fields stand up to the first blank line that no field or indented line follows; a heading behind it ends all."""
    fields: list[Field] = []
    prose: list[Line] = []
    at, counts = start, True
    while at < end:
        if not lines[at].strip():
            after = _skip(lines, at, end, lambda line: not line.strip())
            counts = counts and after < end and (_indented(lines[after]) or _field(lines[after]) is not None)
            prose.append(Line(at, ""))
            at = after
            continue
        if not counts and at not in hidden and _HEADING.match(lines[at]):
            break
        found = _field(lines[at]) if counts and at not in hidden and not _indented(lines[at]) else None
        if found:
            below = _skip(lines, at + 1, end, lambda line: not line.strip() or _indented(line))
            takes_block = found[0] == "verify" and found[1] in ("", *_LITERAL)
            block = tuple(Line(place, lines[place]) for place in range(at + 1, below)) if takes_block else ()
            while block and not block[-1].text.strip():
                block = block[:-1]
            fields.append(Field(*found, at, block))
            at += 1 + len(block)
        else:
            prose.append(Line(at, lines[at]))
            at += 1
    return Fields(fields), tuple(prose), at


def _skip(lines: Sequence[str], at: int, end: int, what: Callable[[str], bool]) -> int:
    while at < end and what(lines[at]):
        at += 1
    return at


def _indented(line: str) -> bool:
    return line[:1] in (" ", "\t") and bool(line.strip())


def _field(line: str) -> tuple[str, str] | None:
    """The key and value of a line that is a field of a step, misspelled ones too."""
    found = pair(line)
    return found if found and meant(found[0], STEP_KEYS) else None


# --- The block below `verify:`


@dataclass(frozen=True, slots=True)
class Item:
    """What is written of one check, a nested `assert:` beside the rest; *strays* are lines that say nothing."""

    line: int
    fields: Fields
    strays: tuple[Line, ...] = ()


def verify_items(field: Field) -> tuple[Item, ...] | Item | None:
    """The checks of a `verify:` field: several for a list, one for an object, None for an empty one.

    A value beside the key, or several lines below `verify: |`, are one shell command.
    """
    if field.value:
        command = dedented(field.block) if field.value in _LITERAL else field.value
        return Item(field.line, Fields([Field("command", command, field.line)]))
    block = [line for line in field.block if line.text.strip()]
    if not block:
        return None
    if not _dashed(block[0].text):
        return _item(field.block, field.line)
    margin = _margin(block[0].text)
    begins = [at for at, line in enumerate(field.block) if _dashed(line.text) and _margin(line.text) == margin]
    ends = [*begins[1:], len(field.block)]
    return tuple(
        _item([_undashed(field.block[at]), *field.block[at + 1 : end]], field.block[at].at)
        for at, end in zip(begins, ends, strict=True)
    )


def dedented(lines: Sequence[Line]) -> str:
    """The text of indented lines without the indentation that they share."""
    margin = min((_margin(line.text) for line in lines if line.text.strip()), default=0)
    return "\n".join(line.text[margin:] for line in lines).strip("\n")


def _item(lines: Sequence[Line], first: int) -> Item:
    fields: list[Field] = []
    strays: list[Line] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        found = pair(line.text)
        at += 1
        if found and found[1] in _LITERAL:
            end = at
            while end < len(lines) and (not lines[end].text.strip() or _margin(lines[end].text) > _margin(line.text)):
                end += 1
            fields.append(Field(found[0], dedented(lines[at:end]), line.at))
            at = end
        elif found:
            fields.append(Field(*found, line.at))
        elif line.text.strip():
            strays.append(line)
    return Item(first, Fields(fields), tuple(strays))


def _margin(text: str) -> int:
    return len(text) - len(text.lstrip())


def _dashed(text: str) -> bool:
    return text.lstrip().startswith("- ") or text.strip() == "-"


def _undashed(line: Line) -> Line:
    return Line(line.at, line.text.replace("-", " ", 1))
