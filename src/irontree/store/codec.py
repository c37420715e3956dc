"""The YAML form of the files under .mino/: a strict reader that types nothing, a writer that all readers agree on.

Ruling R1. The only module that imports PyYAML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from json.encoder import encode_basestring
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from yaml._yaml import CParser
from yaml.events import (
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from irontree.errors import LogDamaged

T = TypeVar("T")

EVENT_BYTES = 64 * 1024
MAX_DEPTH = 32

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Contract templates wrap the YAML in a Markdown fence, some with a sentence before it (older form).
_FENCE = re.compile(rb"^```ya?ml[ \t]*\r?\n(.*?)^```[ \t]*\r?$", re.MULTILINE | re.DOTALL)

_PLAIN = re.compile(r"[a-z][a-z0-9_-]*")
# Words that YAML 1.1 or 1.2 reads as something else than text.
_KEYWORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
# A reader looks for the colon in the first 1,024 characters only, unless `?` comes before the key.
_LONGEST_KEY = 1000
# What YAML does not call printable, plus the line breaks that only some versions know.
_SPECIAL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
_NEEDS_ESCAPE = re.compile(f"[{_SPECIAL}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_mapping(data: bytes | str, path: str, *, limit: int = EVENT_BYTES) -> dict[str, Any]:
    """Read one YAML mapping whose scalars all stay text; plain `null`, `~` and nothing become None.

    Takes the older fenced form too. Raises LogDamaged, naming *path* and the line, for what the protocol has
    no use for: aliases, anchors, tags, duplicate keys, several documents, another root, more than *limit* bytes.
    """
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(raw) > limit:
        raise LogDamaged(f"{path}: larger than {limit} bytes")
    try:
        return _Reader(_unfenced(raw, path), path).document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise LogDamaged(f"{path}, line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise LogDamaged(f"{path}: not readable as YAML text ({error})") from error


def _unfenced(raw: bytes, path: str) -> bytes:
    """The fenced block alone, on the lines where it stood; plain YAML unchanged."""
    if b"```" not in raw:
        return raw
    blocks = list(_FENCE.finditer(raw))
    if len(blocks) > 1:
        raise LogDamaged(f"{path}: {len(blocks)} fenced YAML blocks, expected one")
    if not blocks:
        return raw
    return b"\n" * raw.count(b"\n", 0, blocks[0].start(1)) + blocks[0][1]


class _Reader:
    """Walks parser events: about half the time of composing nodes and constructing from them."""

    def __init__(self, raw: bytes, path: str) -> None:
        self._next: Callable[[], Any] = CParser(raw).get_event
        self._path = path

    def document(self) -> dict[str, Any]:
        self._next()  # stream start
        start = self._next()  # document start, or the end of an empty file
        root = self._next() if isinstance(start, DocumentStartEvent) else start
        if not isinstance(root, MappingStartEvent):
            raise self._refusal(root, "expected a mapping")
        value: dict[str, Any] = self._node(root, 0)
        self._next()  # document end
        if not isinstance(extra := self._next(), StreamEndEvent):
            raise self._refusal(extra, "more than one document")
        return value

    def _node(self, event: Event, depth: int) -> Any:
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if not isinstance(event, CollectionStartEvent):
            raise self._refusal(event, "aliases are not allowed")
        if event.anchor is not None or event.tag is not None:
            raise self._refusal(event, "anchors and tags are not allowed")
        if depth == MAX_DEPTH:
            raise self._refusal(event, "nested too deeply")
        return self._sequence(depth) if isinstance(event, SequenceStartEvent) else self._mapping(depth)

    def _scalar(self, event: ScalarEvent) -> str | None:
        if event.anchor is not None or event.tag is not None:
            raise self._refusal(event, "anchors and tags are not allowed")
        text: str = event.value
        return None if not event.style and text in _NULLS else text

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        following = self._next
        while not isinstance(key := following(), MappingEndEvent):
            if not isinstance(key, ScalarEvent) or key.anchor is not None or key.tag is not None:
                raise self._refusal(key, "a key must be plain text")
            if key.value in result:
                raise self._refusal(key, f"duplicate key {key.value!r}")
            result[key.value] = self._node(following(), depth + 1)
        return result

    def _sequence(self, depth: int) -> list[Any]:
        result = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            result.append(self._node(event, depth + 1))
        return result

    def _refusal(self, event: Any, what: str) -> LogDamaged:
        return LogDamaged(f"{self._path}, line {event.start_mark.line + 1}: {what}")


def write_mapping(mapping: Mapping[str, Any]) -> str:
    """Write text, numbers, booleans, None, lists and mappings as block YAML that 1.1 and 1.2 readers read alike.

    `read_mapping` gives it back equal, with every scalar but None as text. Raises TypeError for other values
    and ValueError for text that no YAML file can hold (lone surrogates).
    """
    lines = list(_entries(mapping, "")) or ["{}"]
    return "\n".join(lines) + "\n"


def _entries(mapping: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in mapping.items():
        head = f"{indent}{_key(_inline(key), indent)}:"
        if isinstance(value, (dict, list, tuple)) and value:
            yield head
            yield from _nested(value, indent + "  ")
        else:
            yield f"{head} {_leaf(value, indent)}"


def _key(text: str, indent: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"? {text}\n{indent}"


def _nested(value: dict[str, Any] | list[Any] | tuple[Any, ...], indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _entries(value, indent)
        return
    for item in value:
        if isinstance(item, (dict, list, tuple)) and item:
            first, *rest = _nested(item, indent + "  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
        else:
            yield f"{indent}- {_leaf(item, indent)}"


def _leaf(value: object, indent: str) -> str:
    match value:
        case str():
            return _block(value, indent + "  ") if "\n" in value and _fits_a_block(value) else _inline(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value)
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise TypeError(f"no YAML form for {type(value).__name__}")


def _fits_a_block(text: str) -> bool:
    """Whether a literal block gives this text back in every reader: printable, and not blank at its end."""
    return not _NEEDS_ESCAPE.search(text) and text.rstrip("\n").rpartition("\n")[2].strip() != ""


def _block(text: str, indent: str) -> str:
    # A first line that begins with white space would be taken for deeper indentation: say how deep it is.
    depth = "2" if text[0] in " \t\n" else ""
    body = text.rstrip("\n")
    endings = len(text) - len(body)
    chomp = {0: "-", 1: ""}.get(endings, "+")
    lines = [f"{indent}{line}" if line else "" for line in body.split("\n")] + [""] * (endings - 1)
    return "\n".join([f"|{depth}{chomp}", *lines])


def _inline(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _KEYWORDS:
        return text
    if _SURROGATE.search(text):
        raise ValueError(f"text with a lone surrogate cannot be stored: {text!r}")
    # JSON's escapes are YAML's; what JSON leaves as it is and YAML does not is escaped here.
    return _NEEDS_ESCAPE.sub(_escape, encode_basestring(text))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 takes 1e+22 for text: it wants the dot.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


# --- From text to typed values: the one place where that happens


_form: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def typed(kind: type[T], mapping: Mapping[str, Any], path: str, *, remedy: str = "") -> T:
    """The value of that kind in *mapping*, as `read_mapping` gave it, so that every scalar is text (R1).

    Never strict, whatever the kind says: that is for values whose reader knows types, as `.mino/config.yml` has them.
    Raises LogDamaged, naming *path*, if it is none.
    """
    try:
        value: T = _form(kind).validate_python(mapping, strict=False)
    except ValidationError as error:
        raise LogDamaged(f"{path}: {first_error(error)}", remedy=remedy) from error
    return value


def first_error(error: ValidationError) -> str:
    """The first of pydantic's findings, in one line."""
    found = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in found["loc"])
    return f"{key}: {found['msg']} (found {found.get('input')!r:.80})"
