"""Render templates to text. Templates hold layout; text from users and programs goes through a filter here.

Every filter first drops unsafe characters: terminal escapes, control and bidirectional characters, line ends that
only some programs know. Before that, and once more at the end, secrets are hidden: a filter that shortens a text
must not leave half of one.

Text of agents and strangers has no effect where it is shown. What that is depends on the medium: a forge also makes
something of mentions, references and closing keywords (`inert` in `domain/text.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import Final

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket

from irontree.domain.comments import NOT_AS_WRITTEN, foreign, plain, reply_problems, slim
from irontree.domain.text import harmless, inert, sentence, without_secrets

_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_MARKUP = re.compile(r"[\\`\[\]&]")
_MOST_SHOWN: Final = 2000
"""Characters of a command, or of a line, in a comment: what is cut is not as written."""
_ESCAPED: Final = r"\\\g<0>"
_TAG = re.compile(r"<(?=[!/?a-z])", re.IGNORECASE)
_OWN_MARKER = re.compile(r"<!--\s*irontree:")
# HTML blocks that only their own end closes.
_HTML_BLOCKS = tuple(
    (re.compile(rf" {{0,3}}<{start}", re.IGNORECASE), end)
    for start, end in (
        ("!--", "-->"),
        (r"\?", "?>"),
        (r"!\[CDATA\[", "]]>"),
        ("![a-z]", ">"),
        *((rf"{tag}(?:[\s>]|$)", f"</{tag}>") for tag in ("pre", "script", "style", "textarea")),
    )
)
_NUMBER = re.compile(r"#\d+")
_POSTED: Final = ("comments/", "issues/")
"""The folders of templates whose texts are posted to a forge."""
_WEB = re.compile(r"https?://[^\s<>()\[\]\"'`]+")


class _Compiled(BytecodeCache):
    """Compiled templates, for every renderer of this process and of those that are forked from it."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self._code.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


_COMPILED: Final = _Compiled()


class JinjaRenderer:
    """Implements `Renderer` with the templates of `irontree.templates`."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        """*secrets* are values to hide in every text, besides what looks like a token (`domain/text.py`)."""
        self._secrets = tuple(secrets)

    @cached_property
    def _environment(self) -> Environment:
        return self._environment_of(forge=False)

    @cached_property
    def _posting(self) -> Environment:
        return self._environment_of(forge=True)

    def _environment_of(self, *, forge: bool) -> Environment:
        environment = Environment(
            loader=PackageLoader("irontree.templates", ""),
            bytecode_cache=_COMPILED,
            undefined=StrictUndefined,
            autoescape=False,  # noqa: S701  (the output is Markdown; the filters below make values harmless)
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        filters: dict[str, Callable[..., str]] = {
            "cell": partial(cell, forge=forge),
            "code": code,
            "cut": cut,
            "foreign": foreign,
            "inline": inline,
            "literal": literal,
            "markdown": markdown,
            "one_line": one_line,
            "place": partial(place, forge=forge),
            "plain": plain,
            "quote_block": quote_block,
            "sentence": sentence,
            "shown": partial(shown, forge=forge),
            "slim": slim,
            "text": partial(text, forge=forge),
            "visible": visible,
        }
        environment.filters |= {name: self._hiding(filter_) for name, filter_ in filters.items()}
        environment.filters["command"] = partial(command, hide=self._hidden)
        environment.filters["criterion"] = partial(criterion, hide=self._hidden)
        environment.tests["web_address"] = is_web_address
        return environment

    def compile_all(self) -> None:
        """Compile all templates now, which takes a fifth of a second: who forks spares each process that."""
        for name in self._environment.list_templates(extensions=["j2"]):
            self._environment.get_template(name)

    def render(self, template: str, **values: object) -> str:
        """Render `templates/{template}.j2`; raises jinja2.UndefinedError for a name that is not given."""
        environment = self._posting if template.startswith(_POSTED) else self._environment
        return self._hidden(environment.get_template(f"{template}.j2").render(values))

    def _hiding(self, filter_: Callable[..., str]) -> Callable[..., str]:
        return lambda value, *words: filter_(self._hidden(value), *words)

    def _hidden(self, value: object) -> str:
        return without_secrets(str(value), self._secrets)


def one_line(value: object, limit: int | None = None) -> str:
    """The text in one line, otherwise unchanged; cut to *limit* characters if given."""
    line = " ".join(_clean(value).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def visible(value: object) -> str:
    """Escape tags and hidden comments, so that they show instead of taking effect: for prompts, which no page shows."""
    return _TAG.sub("&lt;", _clean(value))


def shown(value: object, *, forge: bool = False) -> str:
    """Markdown text that has no effect on a page, or on a *forge*, of whatever lines."""
    return inert(_clean(value), forge=forge)


def text(value: object, limit: int | None = None, *, forge: bool = False) -> str:
    """The same in one line."""
    return shown(one_line(value, limit), forge=forge)


def place(value: object, *, forge: bool = False) -> str:
    """One line of ours that says where something is: numbers and web addresses work, also in parentheses."""
    return " ".join(
        word if _is_place(word.strip("()")) else text(word, forge=forge) for word in one_line(value).split()
    )


def _is_place(word: str) -> bool:
    return is_web_address(word) or _NUMBER.fullmatch(word) is not None


def literal(value: object, limit: int | None = None) -> str:
    """One line that is shown as it was written: no link, image, code or reference, none of which is seen in full."""
    return _MARKUP.sub(_ESCAPED, one_line(value, limit))


def cell(value: object, limit: int | None = 200, *, forge: bool = False) -> str:
    """One line for a cell of a Markdown table."""
    return re.sub(r"(?<!\\)(\\*)\|", r"\1\1\\|", text(value, limit, forge=forge))


def inline(value: object) -> str:
    """A code span that ends where it should, whatever backticks are in the value."""
    line = one_line(value)
    marks = "`" * (_longest_run("`", line) + 1)
    padding = " " if not line or line[0] == "`" or line[-1] == "`" else ""
    return f"{marks}{padding}{line}{padding}{marks}"


def code(value: object, language: str = "text") -> str:
    """A fenced block whose fence is longer than any in the value."""
    body = _clean(value).rstrip("\n")
    fence = "`" * max(3, _longest_run("`", body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def command(value: object, hide: Callable[[object], str] = str) -> str:
    """A command in a comment, as a code span; if it is not shown to the letter, that is said. *hide* hides secrets."""
    given = str(value).strip()
    line = plain(one_line(hide(given), _MOST_SHOWN)).replace("`", "'")
    return f"`{line}`{_note(line, given)}"


def criterion(value: object, hide: Callable[[object], str] = str) -> str:
    """The same of a line of text, as it was written: spaces alone may differ."""
    line = plain(literal(hide(value), _MOST_SHOWN))
    given = _MARKUP.sub(_ESCAPED, " ".join(str(value).split()))
    return f"{line}{_note(*(each.replace('&lt;', '<') for each in (line, given)))}"


def _note(line: str, given: str) -> str:
    return "" if line.replace("\N{ZERO WIDTH SPACE}", "") == given else f" {NOT_AS_WRITTEN}"


def quote_block(value: object) -> str:
    """Prefix every line with `> `."""
    return "\n".join(f"> {line}".rstrip() for line in _clean(value).split("\n"))


def markdown(value: object) -> str:
    """Self-contained Markdown: an open block is closed, and markers of ours are removed."""
    body = _OWN_MARKER.sub("<!-- irontree ", _clean(value)).strip("\n")
    closing = _left_open(body)
    return f"{body}\n{closing}" if closing else body


def cut(value: object, limit: int) -> str:
    """At most *limit* characters, with a note about the rest."""
    whole = _clean(value)
    return whole if len(whole) <= limit else f"{whole[:limit]}\n...(shortened)..."


def is_web_address(value: object) -> bool:
    """Whether it is an http(s) address that may be in a comment, and in a reply."""
    return isinstance(value, str) and _WEB.fullmatch(value) is not None and not reply_problems(value)


def _clean(value: object) -> str:
    return harmless(str(value))


def _longest_run(mark: str, text: str) -> int:
    return max(map(len, re.findall(f"{mark}+", text)), default=0)


def _left_open(body: str) -> str:
    """What closes the block that *body* leaves open (CommonMark 4.5 and 4.6); empty if none is."""
    closing = ""
    for line in body.split("\n"):
        if not closing:
            closing = _opened(line)
        elif _closes(line, closing):
            closing = ""
    return closing


def _opened(line: str) -> str:
    fence = _FENCE.fullmatch(line)
    if fence:
        return "" if fence["fence"][0] == "`" and "`" in fence["info"] else fence["fence"]
    html = next((end for start, end in _HTML_BLOCKS if start.match(line)), "")
    return "" if html in line.lower() else html


def _closes(line: str, closing: str) -> bool:
    if closing[0] not in "`~":
        return closing in line.lower()
    fence = _FENCE.fullmatch(line)
    return fence is not None and fence["fence"].startswith(closing) and not fence["info"].strip()
