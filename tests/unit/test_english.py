"""The words that people read are plain: no phrase that has a shorter or more common form, and sentences begin as such.

Read are README.md, docs/, the templates, and the texts in the code that are not docstrings. What stands in code spans,
code blocks and quotation marks in docs/ is somebody's words, and is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("src", "flows", "tasks", "blocks")
WORDS_AT_MOST = 15

INSTEAD = {
    # what any technical writer would cross out
    r"in order to": "to",
    r"utili[sz]\w*": "use",
    r"via": "by, through, with",
    r"e\.g\.": "such as",
    r"i\.e\.": "that is",
    r"etc\.": "name them, or say 'such as' before",
    r"and/or": "or",
    r"please": "leave it out",
    r"simply": "leave it out",
    r"leverag\w+": "use",
    r"aforementioned": "name it",
    r"whilst|amongst": "while, among",
    r"prior to": "before",
    r"subsequent(?:ly)?": "later, then",
    r"in the event (?:that|of)": "if",
    r"due to the fact that": "because",
    r"with (?:regard|respect) to|regarding": "about",
    r"facilitat\w+": "help",
    r"in spite of": "despite",
    r"there(?:by|in|of|upon)|here(?:in|by|with)|henceforth": "say what it is",
    r"shall": "must, or the present",
    # phrases of our own
    r"given back": "does not count",
    r"of it on a page of its own": "more on its own page",
    r"for you to see to|see to the": "you must check, check the",
    r"re-deriv\w+": "make again",
    r"for (?:lack|want) of": "because there is no",
    r"(?:is|are) no more(?! than)": "does not exist any more",
    r"to the letter": "word for word",
    r"taken in (?:anew|afresh|with)|was taken in": "adopted",
    r"afresh": "again",
    r"as ever": "as usual",
    r"all the same": "anyway",
    r"lets? go of": "release",
    r"told apart": "distinguished",
    r"come[s]? to that": "do that",
    r"of no avail|to no avail": "without effect",
    r"for good measure|at long last|by and large": "leave it out",
    # other words for what docs/glossary.md has a word for
    r"sign(?:s|ed)?[ -]?off": "accept, approve",
    r"(?:a|one|another|each|first|second|third|last|next) try": "attempt",
    r"validators?": "check",
    r"journals?|ledgers?|audit (?:trail|log)s?": "event log",
    r"(?<!\.)trackers?": "forge",
    r"tickets?|work items?": "issue, task",
    r"blueprints?|roadmaps?": "plan",
    r"private cop(?:y|ies)(?! of the repository)": "workspace",
}
"""Patterns of whole words, and what to write instead."""
BANNED = re.compile(rf"(?<![\w-])(?:{'|'.join(f'({each})' for each in INSTEAD)})(?![\w-])", re.IGNORECASE)
QUOTED = re.compile(
    r"^(`{3,}).*?^\1|`[^`\n]*`|“[^”]*”|\"[^\"\n]*\"|<!--.*?-->|\{[%#].*?[%#]\}", re.MULTILINE | re.DOTALL
)
STARTS_SMALL = re.compile(r"[a-z…)”`]\. [a-z]")


def pages() -> Iterator[tuple[str, str]]:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "templates").rglob("*.j2"))]
    for path in paths:
        yield path.relative_to(ROOT).as_posix(), QUOTED.sub("", path.read_text(encoding="utf-8"))


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """Where a text of the code is, and the text, with `…` for what is put into it; only of files that may fail."""
    found: list[tuple[str, str]] = []
    for folder in LAYERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if not BANNED.search(source) and not STARTS_SMALL.search(source):
                continue  # most files: parsing them all would take more than a second
            name = path.relative_to(ROOT).as_posix()
            found += [(f"{name}:{line}", text) for line, text in texts(ast.parse(source)) if " " in text]
    return tuple(found)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    todo = [tree]
    while todo:
        match todo.pop():
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Constant(value=str(text), lineno=line) if "(?" not in text:  # no pattern
                yield line, text
            case ast.JoinedStr(values=values, lineno=line):
                yield line, "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
                todo += [part for part in values if isinstance(part, ast.FormattedValue)]
            case node:
                todo += ast.iter_child_nodes(node)


def unplain(text: str) -> list[str]:
    words = list(INSTEAD.values())
    return [f"{found[0]!r}: write {words[(found.lastindex or 1) - 1]}" for found in BANNED.finditer(text)]


def test_the_pages_and_templates_are_in_plain_words():
    assert [(name, each) for name, text in pages() for each in unplain(text)] == []


def test_the_messages_are_in_plain_words():
    assert [(where, each) for where, text in messages() for each in unplain(text)] == []


def test_a_sentence_of_a_message_begins_with_a_capital():
    assert [(where, found[0], text) for where, text in messages() for found in STARTS_SMALL.finditer(text)] == []


def test_the_glossary_is_short_sorted_and_of_words_that_are_used():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*(.+)\*\* \|", text, re.MULTILINE)
    others = " ".join(page for name, page in pages() if name != "docs/glossary.md")

    assert words == sorted(words)
    assert 0 < len(words) <= WORDS_AT_MOST
    assert [word for word in words if not re.search(rf"\b{word}", others)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Sent via the server.", ["'via': write by, through, with"]),
        ("The attempt is given back, e.g. now.", ["'given back': write does not count", "'e.g.': write such as"]),
        ("Each ticket is in the tracker.", ["'ticket': write issue, task", "'tracker': write forge"]),
        ("A viaduct is no more than a shallow bridge.", []),
    ],
)
def test_what_is_found(text: str, found: list[str]):
    assert unplain(text) == found
