"""Markdown as headings and the blocks under them, with line numbers; and findings by line.

Lines are indexes from 0 into the normalised text. Headings in quotes, lists, fences and comments are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal

from irontree.domain.requirements.apart import lines_apart, mail_begins

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode


BlockKind = Literal["paragraph", "list", "fence", "comment", "heading", "other"]

MAX_TEXT: Final = 2000
"""Maximum length of a title, field, criterion or command: parsing a hostile longer one is not linear in time."""
# An open comment hides the rest: looking for the end of each of many would take the square of their number.
_HIDDEN: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CHECKBOX: Final = re.compile(r"\[[ xX]\](?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list. *text* is its paragraphs in one line, without the checkbox; *blocks* is what is nested."""

    text: str
    start: int
    end: int
    checkbox: bool
    blocks: tuple[MarkdownBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A block; *lines* hold a paragraph's or fence's text, *closed* is False for one that runs into the end."""

    kind: BlockKind
    start: int
    end: int
    lines: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    closed: bool = True

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Each line of the text with its place in the document."""
        return enumerate(self.lines, start=self.start + (self.kind == "fence"))


@dataclass(frozen=True, slots=True)
class MarkdownSection:
    """A heading (levels 1 to 6, *title* without markup) with the blocks up to the next heading."""

    level: int
    title: str
    start: int
    body: int
    end: int
    blocks: tuple[MarkdownBlock, ...]


@dataclass(frozen=True, slots=True)
class MarkdownDocument:
    """A whole text: what stands before the first heading, then the sections in their order."""

    preamble: tuple[MarkdownBlock, ...]
    sections: tuple[MarkdownSection, ...]


def parse(lines: Sequence[str]) -> MarkdownDocument:
    """Parse *lines* into a document."""
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415  (see _parser)

    environment: dict[str, object] = {}
    tokens = _blocks_parser().parse("\n".join(lines), environment)
    nodes = SyntaxTreeNode(tokens).children
    cuts = [*(index for index, node in enumerate(nodes) if node.type == "heading"), len(nodes)]
    sections = tuple(
        _section(nodes[start], nodes[start + 1 : end], environment, _start(nodes, end, len(lines)))
        for start, end in pairwise(cuts)
    )
    return MarkdownDocument(_blocks(nodes[: cuts[0]]), sections)


# Inline markup has one of these; most titles and fields have none, and to parse them is a fifth of reading a document.
_INLINE_MARK: Final = re.compile(r"[\\`*_\[\]<&!\r\n\0]")


def plain(text: str, environment: dict[str, object] | None = None) -> str:
    """Inline Markdown without its markup, in one line; everything else is unchanged."""
    if len(text) > MAX_TEXT:
        return text
    if not _INLINE_MARK.search(text):
        return " ".join(text.split())
    tokens = _parser().parseInline(text, environment if environment is not None else {})[0].children or []
    parts = (" " if token.type in ("softbreak", "hardbreak") else token.content for token in tokens)
    return " ".join("".join(parts).split())


def lines_said(text: str, beginning: str) -> tuple[str, ...]:
    """The lines of *text*; blank unless they begin with *beginning*, in the prose of a paragraph at the top level.

    So nothing else says anything: quotes and lists and what is directly below, tables, code, headings, footnotes,
    math, definitions and titles of links, texts for images, attributes, what stands between HTML tags, and what is
    below in a mail. In doubt a line is blank.
    """
    lines = _visible(text)
    said = [""] * len(lines)
    tags, links = _OpenTags(), dict[str, object]()
    tokens = _comment_parser().parse("\n".join(lines), links)
    apart = lines_apart(lines, _fenced(tokens))
    for start, end, content in _paragraphs(tokens, tags):
        candidates = lines[start:end] if len(content) <= MAX_TEXT else lines[start : start + 1]
        begun = [line.lstrip() for line in candidates]
        marked = "\n".join(
            f"{_AT}{place}{_AT}{line}" if line.startswith(beginning) else line for place, line in enumerate(begun)
        )
        for place in _begun_in_prose(marked, tags, links):
            said[start + place] = "" if start + place in apart else candidates[place]
    return tuple(said)


def lines_unsaid(text: str, beginning: str) -> tuple[tuple[int, str, str], ...]:
    """The other visible lines that begin with *beginning*: the place, the line, and where it stands instead."""
    lines, said = _visible(text), lines_said(text, beginning)
    tokens = _comment_parser().parse("\n".join(lines))
    fenced = _fenced(tokens)
    mail = mail_begins(lines, fenced)

    def why(place: int) -> str:
        if place in fenced:
            return "in code"
        return "below a quoted mail or a signature" if mail is not None and place >= mail else _IN_MARKUP

    return tuple(
        (place, line, why(place))
        for place, line in enumerate(lines)
        if line.lstrip().startswith(beginning) and not said[place]
    )


def words_said(text: str) -> str:
    """What the author of a comment says in words, in paragraphs, headings, lists and tables.

    Not what is quoted or below in a mail, code, crossed out, in or between HTML tags, or in links and texts for images.
    A paragraph with a line that may be one of these says nothing.
    """
    lines = _visible(text)
    tokens, tags = _comment_parser().parse("\n".join(lines)), _OpenTags()
    apart = lines_apart([_LIST_MARK.sub("", line) for line in lines], _fenced(tokens))
    said = []
    for token in tokens:
        if token.type == "html_block":
            tags.feed(token.content)
        elif token.type == "inline":
            words = "".join(_words_of(token.children or (), tags))
            said.append("" if token.map and apart.intersection(range(*token.map)) else words)
    return "\n".join(said)


_LIST_MARK: Final = re.compile(r"\s*(?:[-+*]|\d{1,9}[.)])\s+")


def _words_of(tokens: Iterable[Token], tags: _OpenTags) -> Iterator[str]:
    """The text outside of code, links, images and tags, and not crossed out; fills *tags*."""
    hidden = 0
    for token in tokens:
        hidden += token.nesting if token.type in ("link_open", "link_close", "s_open", "s_close") else 0
        if token.type == "html_inline":
            tags.feed(token.content)
        if token.nesting == 0:  # what opens or ends emphasis does not end a word
            yield token.content if token.type == "text" and not hidden and not tags else " "


_IN_MARKUP: Final = "in or directly below a quotation, a list or other markup"


def _visible(text: str) -> list[str]:
    """The lines of a comment; those of HTML comments are blank."""
    plain_ends = text.replace("\r\n", "\n").replace("\r", "\n").replace(_AT, "").removeprefix("\ufeff")
    return _HIDDEN.sub(lambda found: "\n" * found[0].count("\n"), plain_ends).split("\n")


_AT: Final = "\ue000"
"""Marks where a line begins: no text of ours has it, and it is taken out of those of others."""
_MARK: Final = re.compile(f"{_AT}(\\d+){_AT}")
_TAG_NAMES: Final = (
    "a abbr acronym address annotation-xml applet article aside audio b bdi bdo big blink blockquote body button canvas"
    " caption center cite code colgroup data datalist dd del details dfn dialog dir div dl dt em fieldset figcaption"
    " figure font footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup html i iframe ins kbd label legend li"
    " listing main map mark marquee math menu meter nav nobr noembed noframes noscript object ol optgroup option output"
    " p picture plaintext pre progress q rb rp rt rtc ruby s samp script search section select slot small span strike"
    " strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr tt ul var video"
    " xmp"
)
_TAGS: Final = frozenset(_TAG_NAMES.split())
"""Of HTML, less `u`; what else looks like a tag, such as `Vec<T>`, opens nothing on a page."""


class _OpenTags(HTMLParser):
    """The HTML elements that are open; what stands in one may be folded, hidden or anything else."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._open or self.rawdata)  # a tag without an end takes in what follows

    def feed(self, data: str) -> None:
        if not self.rawdata:
            super().feed(data)

    def handle_starttag(self, tag: str, attrs: Sequence[object]) -> None:
        """A bare `<p>` hides nothing, and needs no end."""
        if (tag in _TAGS or "-" in tag) and (tag != "p" or attrs):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]


def lines_hidden(lines: Sequence[str]) -> frozenset[int]:
    """The places of the lines in fenced code and in comments: what looks like a heading there is none."""
    text = "\n".join(lines)
    if not any(mark in text for mark in ("```", "~~~", "<!--")):  # most texts: the parser need not be loaded
        return frozenset()
    tokens = _blocks_parser().parse(text)
    comments = (each for each in tokens if each.type == "html_block" and each.content.lstrip().startswith("<!--"))
    return _fenced(tokens) | frozenset(place for each in comments if each.map for place in range(*each.map))


def _fenced(tokens: Iterable[Token]) -> frozenset[int]:
    return frozenset(place for each in tokens if each.type == "fence" and each.map for place in range(*each.map))


def _paragraphs(tokens: Sequence[Token], tags: _OpenTags) -> Iterator[tuple[int, int, str]]:
    """The paragraphs at the top level outside of any HTML element, by their lines; fills *tags*."""
    for token, inner in zip_longest(tokens, tokens[1:]):
        if token.type == "html_block":
            tags.feed(token.content)
        elif token.type == "paragraph_open" and token.level == 0 and token.map and inner and not tags:
            yield token.map[0], token.map[1], inner.content


def _begun_in_prose(marked: str, tags: _OpenTags, links: dict[str, object]) -> Iterator[int]:
    """Which marked lines of a paragraph begin outside of code, links, images, emphasis and tags."""
    begins = True
    for token in _comment_parser().parseInline(marked, links)[0].children or ():
        found = _MARK.match(token.content) if token.type == "text" and token.level == 0 else None
        if found and begins and not tags:
            yield int(found[1])
        if token.type == "html_inline":
            tags.feed(token.content)
        begins = token.type in ("softbreak", "hardbreak")


@cache
def _comment_parser() -> MarkdownIt:
    """A parser for comments, which forges show with these extensions."""
    return type(_parser())("commonmark").enable(["table", "strikethrough"])


_COMMENT_OR_TAG: Final = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<[!?][^>]*>?|<(?P<raw>script|style|template|title)\b(?s:.*?)(?:</(?P=raw)\s*>|\Z)"
    r"|<[a-z][a-z0-9-]*\s[^<>]*>",
    re.IGNORECASE,
)
_TITLE_OR_IMAGE: Final = re.compile(
    r"!\[(?s:.*?)(?=\]\(|\]\[|\Z)|\]\((?:<[^<>\n]*>|\S*)(?P<title>\s+[\"'(](?s:.*?)(?:[\"')]\s*\)|\Z))?"
)
"""The text for an image, and a link's title: a page shows them under the pointer at most.

A pattern that has begun always fits, so a hostile text is gone through once.
"""


def undisplayed(text: str) -> tuple[str, ...]:
    """What is in a Markdown text and not on its page: link definitions, comments, what is only in tags, titles.

    The same is found in a code span, which is displayed: more is told rather than less.
    """
    environment: dict[str, Any] = {}
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    tokens = _blocks_parser().parse("\n".join(lines), environment)
    defined = [*environment.get("references", {}).values(), *environment.get("duplicate_refs", ())]
    found = ["\n".join(lines[slice(*each["map"])]) for each in defined]
    for token in tokens:
        if token.type in ("html_block", "inline"):
            found += [match[0] for match in _COMMENT_OR_TAG.finditer(token.content)]
        if token.type == "inline":
            marked = _TITLE_OR_IMAGE.finditer(token.content)
            found += [match[0].removeprefix("]") for match in marked if match[0][0] == "!" or match["title"]]
    return tuple(dict.fromkeys(found))


def without_front_matter(lines: Sequence[str]) -> list[str]:
    """The same number of lines; a block of `key: value` between `---` at the very top is blanked."""
    closing = next((i for i, line in enumerate(lines) if i and line in ("---", "...")), None)
    if closing and lines[0] == "---" and (closing == 1 or re.match(r"[\w-]+:", lines[1])):
        return [""] * (closing + 1) + list(lines[closing + 1 :])
    return list(lines)


@cache
def _parser() -> MarkdownIt:
    """The parser, imported on first use: a run whose document is unchanged needs none (saves 30 ms at start)."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    return MarkdownIt("commonmark")


@cache
def _blocks_parser() -> MarkdownIt:
    """A parser for blocks only; inline text is parsed where needed."""
    return type(_parser())("commonmark").disable("inline")


def _section(
    heading: SyntaxTreeNode, nodes: Sequence[SyntaxTreeNode], environment: dict[str, object], end: int
) -> MarkdownSection:
    start, body = _lines_of(heading)
    title = plain(_raw(heading), environment)
    return MarkdownSection(int(heading.tag[1:]), title, start, body, end, _blocks(nodes))


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> tuple[MarkdownBlock, ...]:
    return tuple(_block(node) for node in nodes)


def _block(node: SyntaxTreeNode) -> MarkdownBlock:
    start, end = _lines_of(node)
    match node.type:
        case "paragraph":
            return MarkdownBlock("paragraph", start, end, tuple(_raw(node).split("\n")))
        case "fence":
            lines = tuple(node.content.removesuffix("\n").split("\n")) if node.content else ()
            return MarkdownBlock("fence", start, end, lines, closed=end - start == len(lines) + 2)
        case "bullet_list" | "ordered_list":
            return MarkdownBlock("list", start, end, items=tuple(_item(child) for child in node.children))
        case "html_block" if node.content.startswith("<!--"):
            text = node.content.rstrip()
            return MarkdownBlock("comment" if text.endswith("-->") else "other", start, end, closed="-->" in text)
        case _:
            return MarkdownBlock("other", start, end)


def _item(node: SyntaxTreeNode) -> Item:
    start, end = _lines_of(node)
    text = " ".join(" ".join(_raw(child).split()) for child in node.children if child.type == "paragraph")
    box = _CHECKBOX.match(text)
    nested = _blocks(child for child in node.children if child.type != "paragraph")
    return Item(text[box.end() :] if box else text, start, end, box is not None, nested)


def _raw(node: SyntaxTreeNode) -> str:
    """The source of a heading's or paragraph's inline text."""
    return node.children[0].content if node.children else ""


def _start(nodes: Sequence[SyntaxTreeNode], index: int, default: int) -> int:
    return _lines_of(nodes[index])[0] if index < len(nodes) else default


def _lines_of(node: SyntaxTreeNode) -> tuple[int, int]:
    if node.map is None:  # pragma: no cover - every block token has its lines
        raise ValueError(f"a {node.type} without lines")
    return node.map


# --- Errors and warnings in a requirement document


_MAX_QUOTED: Final = 80


def quoted(text: str) -> str:
    """Text of the document for a message: in quotes, and cut if it is long."""
    return f"'{text}'" if len(text) <= _MAX_QUOTED else f"'{text[: _MAX_QUOTED - 3]}...'"


@dataclass(frozen=True, slots=True, order=True)
class SpecProblem:
    """A problem for the author to fix; *line* counts from 1 in the original file."""

    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        end = "" if self.remedy.endswith("?") else "."
        return f"line {self.line}: {self.what}. {self.remedy}{end}"

    def describe(self, name: str) -> str:
        """The problem in one line for a file of that name: `file:line: what. Remedy.`."""
        return f"{name}:{str(self).removeprefix('line ')}"


@dataclass(slots=True)
class Findings:
    """Collects the problems of one document; *numbers* map the lines read to line numbers of the file."""

    numbers: Sequence[int]
    errors: list[SpecProblem] = field(default_factory=list)
    warnings: list[SpecProblem] = field(default_factory=list)

    def line(self, index: int) -> int:
        """The line number in the file of the line at *index* (from 0); 1 for an empty document."""
        return self.numbers[index] if index < len(self.numbers) else 1

    def refuse(self, index: int, what: str, remedy: str) -> None:
        """Note an error: the document cannot be approved."""
        self.errors.append(SpecProblem(self.line(index), what, remedy))

    def warn(self, index: int, what: str, remedy: str) -> None:
        """Note a warning: shown at approval."""
        self.warnings.append(SpecProblem(self.line(index), what, remedy))
