"""Markdown with YAML front matter, as people edit it by hand: what they wrote is kept, key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from irontree.errors import IrontreeError

Reader = Callable[[str], Mapping[str, Any]]
Writer = Callable[[Mapping[str, Any]], str]

_FRONT = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """The text between the `---` lines, and the text after them."""

    head: str
    body: str

    def text(self) -> str:
        """The file's content."""
        return f"---\n{self.head}---\n\n{self.body}\n"


def split(text: str) -> Document:
    """Take a file apart; one without front matter is all body. A BOM and foreign line ends go."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = _FRONT.match(text)
    head, body = (found["head"], text[found.end() :]) if found else ("", text)
    return Document(head, body.removeprefix("\n").removesuffix("\n"))


def amend(head: str, changes: Mapping[str, Any], *, read: Reader, write: Writer) -> str:
    """Change some keys of a front matter and leave every other line, comments too, as it stands.

    A head that cannot be changed line by line (flow style over several lines, for example) is written anew.
    """
    anew = write({**read(head), **changes})
    amended = head
    for key, value in changes.items():
        amended = _splice(amended, key, write({key: value}))
    try:
        return amended if read(amended) == read(anew) else anew
    except IrontreeError:
        return anew


def _splice(head: str, key: str, entry: str) -> str:
    """Replace the lines of *key* (from its own to the next that is neither indented nor an item), or append."""
    lines = re.compile(rf"^{re.escape(key)}[ \t]*:[^\n]*\n(?:[ \t-][^\n]*\n)*", re.MULTILINE)
    head = head if head.endswith("\n") or not head else head + "\n"
    return lines.sub(lambda _: entry, head, count=1) if lines.search(head) else head + entry
