"""The lines of a comment that its author does not say, although Markdown takes them for prose.

That is what stands below in a mail, and what forges know and our parser does not: footnotes and math. In doubt a line
is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final


def lines_apart(lines: Sequence[str], fenced: Collection[int]) -> frozenset[int]:
    """The places of such lines; of the *fenced* ones, which are code, none begins anything."""
    begins = _mail_begins(lines, fenced)
    below = range(len(lines) if begins is None else begins, len(lines))
    return frozenset((*below, *_footnotes(lines, fenced), *_math(lines, fenced)))


# --- Mails: these lines stand above the words of others, which not every program for mail marks by `>`


_ORIGINAL: Final = re.compile(
    r"(?i)[-_*]{2,} ?(?:original|forwarded|reply|ursprüngliche|weitergeleitete|message|mensaje|messaggio|mensagem"
    r"|oorspronkelijk|原始|转发).{0,80}[-_*]{2,}|begin forwarded message:|anfang der weitergeleiteten nachricht:"
)
_OUTLOOK: Final = re.compile(r"_{20,}")
_SIGNATURE: Final = re.compile(r"--[ \t\xa0]+")
_WROTE: Final = re.compile(
    r"(?i)(?:(?:(?<!\w)(?:wrote|writes|a écrit|escribió|ha scritto|escreveu|napisał|написал)|写道)"
    r"(?: (?:on|at|in|via|le|el|il|em)\b.*| ?[(\[<].*)?"
    r"|(?<!\w)(?:schrieb|schreibt|schreef|skrev)\b(?P<name>.*)) ?[:\uff1a]\Z"
)
_TIME: Final = re.compile(r"\d\d?[:.]\d\d|\d{4}|(?i:\b(?:on|am|le|el|il|em|op|den)\b\D{1,20}\d)")
_ADDRESS: Final = re.compile(r"[<(\[](?:mailto:)?[^\s<>@]{1,64}@[^\s<>@]")
_COLONS: Final = (":", "\uff1a")
_FEW: Final = 5
"""More words besides *wrote* are a sentence of the author's, unless with a time or an address, or above a quotation."""
_HEADER: Final = re.compile(
    r"(?i)(?:(?P<sender>from|von|de|da|van|från|发件人)|(?P<more>sent|date|gesendet|datum|envoyé|enviado|inviato|data|fecha"
    r"|verzonden|skickat|发送时间|subject|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|主题)"
    r"|to|cc|bcc|an|à|para|aan|till|reply-to|收件人|抄送)[*_ \xa0]{0,4}[:\uff1a]"
)
_AROUND: Final = "*_ \t\xa0\u200e\u200f\u202c"
"""Marks of emphasis and of direction."""


def _mail_begins(lines: Sequence[str], fenced: Collection[int]) -> int | None:
    """The place of the first line that says that words of others follow."""
    sentence: int | None = None
    headers, kinds = 0, set[str | None]()
    for place, line in enumerate(lines):
        bare = "" if place in fenced else line.strip(_AROUND)
        if _SIGNATURE.fullmatch(line) or _OUTLOOK.fullmatch(line.strip()) or _ORIGINAL.fullmatch(line.strip()):
            if place not in fenced:
                return place
        elif not bare:
            sentence = None if place in fenced else sentence
        elif bare.startswith(">"):
            if sentence is not None:
                return sentence
        elif _is_attribution(bare):
            return place
        else:
            sentence = place if _wrote(bare) else None
            header = _HEADER.match(bare)
            headers = headers if header and kinds else place
            kinds = {*kinds, header.lastgroup} if header else set()
            if {"sender", "more"} <= kinds:
                return headers
    return None


def _wrote(line: str) -> re.Match[str] | None:
    """Who wrote something, at the end of the line; in some languages the name is behind the word."""
    return _WROTE.search(line) if line.endswith(_COLONS) else None


def _is_attribution(line: str) -> bool:
    """Whether it is a line such as `On Mon, 3 Jan 2026, Bob <b@example.org> wrote:`, whatever follows."""
    wrote = _wrote(line)
    dated, addressed = _TIME.search(line), _ADDRESS.search(line)
    if not wrote:
        return bool(dated and addressed and line.endswith(_COLONS) and not _HEADER.match(line))
    name = f"{line[: wrote.start()]} {wrote['name'] or ''}".split()
    return bool(dated or addressed or len(name) <= _FEW)


# --- What forges show as something else than prose


_FOOTNOTE: Final = re.compile(r" {0,3}\[\^[^\]]*\]:")
_TAB: Final = 4
_CODE_SPAN: Final = re.compile(r"`[^`]*`")


def _footnotes(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """A definition, its indented paragraphs, and what follows one of those without an empty line between."""
    inside, empty = False, False
    for place, line in enumerate(lines):
        if place in fenced:
            inside = False
        elif _FOOTNOTE.match(line):
            inside = True
        elif line.strip() and empty:
            inside = inside and _indent(line) >= _TAB
        empty = not line.strip()
        if inside:
            yield place


def _indent(line: str) -> int:
    wide = line.expandtabs(_TAB)
    return len(wide) - len(wide.lstrip())


def _math(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """From `$$` to the next one: at the beginning of a line a block, also without an end; else within a paragraph."""
    opened: int | None = None
    block = False
    for place, line in enumerate(lines):
        if not block and (place in fenced or not line.strip()):
            opened = None
        if place in fenced:
            continue
        marks = _CODE_SPAN.sub("", line).count("$$")
        if opened is not None and marks:
            yield from range(opened, place + 1)
        if marks % 2:
            opened = place if opened is None else None
            block = opened is not None and line.lstrip().startswith("$$") and _indent(line) < _TAB
        elif marks and opened is not None:
            opened = place
    if opened is not None and block:
        yield from range(opened, len(lines))
