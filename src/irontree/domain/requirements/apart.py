"""The lines of a comment that its author does not say, although Markdown takes them for prose.

That is what stands below in a mail or directly below a quotation or list, and what forges know and our parser does
not: footnotes, math, text that one tilde crosses out. In doubt a line is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final


def lines_apart(lines: Sequence[str], fenced: Collection[int]) -> frozenset[int]:
    """The places of such lines; of the *fenced* ones, which are code, none begins anything."""
    begins = mail_begins(lines, fenced)
    below = range(len(lines) if begins is None else begins, len(lines))
    parts = (_footnotes, _math, _brackets, _crossed_out, _below_marks)
    return frozenset((*below, *(place for part in parts for place in part(lines, fenced))))


def _is_blank(line: str) -> bool:
    """Whether the line ends a paragraph: one with a no-break space does not."""
    return not line.strip(" \t")


# --- Mails: these lines stand above the words of others, which not every program for mail marks by `>`


_DASHES: Final = "-\u2010-\u2015\u2500\u2501"
_DASHED: Final = re.compile(rf"\\?[{_DASHES}]{{2,}}(?P<text>[^|]{{1,120}}?)[{_DASHES}]{{2,}}")
_ORIGINAL: Final = re.compile(
    r"(?i)[_*]{2,} ?(?:original|forwarded|reply|ursprüngliche|weitergeleitete|message|mensaje|messaggio|mensagem"
    r"|oorspronkelijk|原始|转发).{0,80}[_*]{2,}|begin forwarded message:|anfang der weitergeleiteten nachricht:"
    r"|inicio del mensaje reenviado:"
)
_RULE: Final = re.compile(r"_{20,}")
"""Outlook has it above the headers of a mail; alone it is a rule."""
_SIGNATURE: Final = re.compile(r"--[ \t\xa0]+")
_WROTE: Final = re.compile(
    r"(?i)(?:(?:(?<!\w)(?:wrote|writes|a écrit|escribió|ha scritto|escreveu|napisała?|написала?)|写道)"
    r"(?: (?:on|at|in|via|le|el|il|em)\b.*| ?[(\[<].*)?"
    r"|(?<!\w)(?:schrieb|schreibt|schreef|skrev)\b(?P<name>.*)) ?[:\uff1a]\Z"
)
_TIME: Final = re.compile(r"\d\d?[:.]\d\d|\d{4}|(?i:\b(?:on|am|le|el|il|em|op|den)\b\D{1,20}\d)")
_ADDRESS: Final = re.compile(r"[<(\[\u2039\uff08](?:mailto:)?[^\s<>@]{1,64}@[^\s<>@]")
_COLONS: Final = (":", "\uff1a")
_OPEN_ADDRESS: Final = ("<", "\u2039")
_SENTENCE_ENDS: Final = (".", "!", "?")
_MOST_NAMES: Final = 5
_PARTICLES: Final = frozenset(
    ("de", "del", "den", "der", "di", "da", "dos", "la", "van", "von", "zu", "bin", "al", "y")
)
_NO_NAMES: Final = (
    "i you he she we they it as who what this that the these those here there ich du er sie wir ihr wie was das die"
    " je tu il elle nous vous ils elles comme ce yo él ella como lo eu ele ela io lui lei come ik hij zij wij zoals"
    " jag han hon vi som ja ona я он она мы 我 他 她"
)
"""They begin a sentence of the author's."""
_HEADER: Final = re.compile(
    r"(?i)(?:(?P<sender>from|von|de|da|van|från|发件人)|(?P<more>sent|date|gesendet|datum|envoyé|enviado|inviato|data|fecha"
    r"|verzonden|skickat|发送时间|subject|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|主题)"
    r"|to|cc|bcc|an|à|para|aan|till|reply-to|收件人|抄送)[*_ \xa0]{0,4}[:\uff1a]"
)
_FORM: Final = re.compile(r"[^\W\d_][^:\uff1a]{0,30}[:\uff1a](?!//)[*_ \t\xa0]*\S")
_IN_ONE_LINE: Final = re.compile(r"(?<![^\s*_])[^\W\d_][\w-]{0,20}[*_]{0,4}[:\uff1a](?=[\s*_])")
_MOMENT: Final = re.compile(r"(?<!\d)\d\d?:\d\d(?!\d)|(?<![A-Za-z\d])(?:19|20)\d\d(?![A-Za-z\d])")
_ANY_ADDRESS: Final = re.compile(r"[^\s<>@]@[^\s<>@]{2}")
_FEW: Final = 3
"""So many lines of the form `Word: text` with a time or an address are the headers of a mail in any language."""
_AROUND: Final = "*_ \t\xa0\u200e\u200f\u202c"
"""Marks of emphasis and of direction."""
_QUOTES: Final = (">", "\u00bb", "\u203a")


def mail_begins(lines: Sequence[str], fenced: Collection[int]) -> int | None:
    """The place of the first line that says that words of others follow."""
    bare = ["" if place in fenced else line.strip(_AROUND) for place, line in enumerate(lines)]
    following = _following(lines, bare, fenced)
    headers = _Headers()
    for place, line in enumerate(lines):
        if place in fenced or bare[place].startswith(_QUOTES):
            headers = _Headers()
        elif _announces(line, bare[place], following[place]) or _attributes(bare, following, place):
            return place
        elif bare[place] and headers.take(place, line, bare[place]):
            return headers.begin
    return None


def _following(lines: Sequence[str], bare: Sequence[str], fenced: Collection[int]) -> list[str]:
    """For each line the next one that is not empty; of a line of code, which is no quotation, a mark of it."""
    following, below = [""] * len(lines), ""
    for place in reversed(range(len(lines))):
        following[place] = below
        below = "```" if place in fenced else bare[place] or below
    return following


def _announces(line: str, bare: str, following: str) -> bool:
    """Whether it is a line that a program for mail sets above what it quotes, or above a signature."""
    if _SIGNATURE.fullmatch(line) or _ORIGINAL.fullmatch(line.strip()):
        return True
    dashed = _DASHED.fullmatch(bare)
    if dashed and any(map(str.isalpha, dashed["text"])):
        return True
    return bool(_RULE.fullmatch(line.strip()) and _FORM.match(following))


def _attributes(bare: Sequence[str], following: Sequence[str], place: int) -> bool:
    """Whether the line, or it and the next one, says who wrote what follows; a quotation with `>` has its own end."""
    line = bare[place]
    if _is_attribution(line):
        return not following[place].startswith(_QUOTES)
    below = bare[place + 1] if place + 1 < len(bare) else ""
    if not line or line.endswith(_COLONS) or not below or below.startswith(_QUOTES):
        return False
    joined = f"{line}{'' if line.endswith(_OPEN_ADDRESS) else ' '}{below}"
    is_wrapped = not line.endswith(_SENTENCE_ENDS) or _ADDRESS.search(joined)
    return bool(is_wrapped and _is_dated(joined) and not following[place + 1].startswith(_QUOTES))


def _wrote(line: str) -> re.Match[str] | None:
    """Who wrote something, at the end of the line; in some languages the name is behind the word."""
    return _WROTE.search(line) if line.endswith(_COLONS) else None


def _is_dated(line: str) -> bool:
    """Whether it is a line such as `On Mon, 3 Jan 2026, Bob <b@example.org> wrote:`, in any language."""
    if not line.endswith(_COLONS):
        return False
    dated, addressed = _TIME.search(line), _ADDRESS.search(line)
    if dated and addressed:
        return not _HEADER.match(line)
    return bool((dated or addressed) and _wrote(line))


def _is_attribution(line: str) -> bool:
    """Whether it is such a line, or has nothing but a name: `Bob wrote:`. With more words it is a sentence."""
    wrote = _wrote(line)
    if _is_dated(line) or not wrote:
        return _is_dated(line)
    before = line[: wrote.start()].rpartition(": ")[2]
    words = f"{before} {wrote['name'] or ''}".split()[: _MOST_NAMES + 1]
    if not words or words[0].casefold() in _NO_NAMES.split():
        return not words
    names = all(not word[0].islower() or word in _PARTICLES for word in words)
    return len(words) == 1 or (names and len(words) <= _MOST_NAMES)


class _Headers:
    """Lines in a row that may be the headers of a mail, also with empty lines between."""

    def __init__(self) -> None:
        self.begin = self._count = self._known = 0
        self._kinds = set[str | None]()
        self._marked = False

    def take(self, place: int, line: str, bare: str) -> bool:
        """Take the next line; whether the row is the head of a mail by now."""
        known, form = _HEADER.match(bare), _FORM.match(bare)
        if not (known or form):
            if line[:1] not in " \t":  # else it goes on with the one above
                self._count = self._known = 0
                self._kinds, self._marked = set(), False
            return False
        self.begin = self.begin if self._count else place
        self._count += max(1, sum(1 for _ in islice(_IN_ONE_LINE.finditer(bare), _FEW)))
        self._known += bool(known)
        self._kinds.add(known.lastgroup if known else None)
        self._marked = self._marked or bool(_MOMENT.search(bare) or _ANY_ADDRESS.search(bare))
        enough = self._marked or self._known >= _FEW
        return ({"sender", "more"} <= self._kinds and enough) or (self._count >= _FEW and self._marked)


# --- What forges show as something else than prose


_FOOTNOTE: Final = re.compile(r" {0,3}\[\^[^\]]*\]:")
_TAB: Final = 4
_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_MARKED: Final = re.compile(r"\s*(?:[>\u00bb\u203a]|(?:[-+*]|\d{1,9}[.)])(?:\s|\Z))")


def _below_marks(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """What follows a line of a quotation or list without an empty line between: forges may go on with it there."""
    inside = False
    for place, line in enumerate(lines):
        if place in fenced or _is_blank(line):
            inside = False
        elif _MARKED.match(line):
            inside = True
        if inside:
            yield place


def _footnotes(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """A definition, its indented paragraphs, and what follows one of those without an empty line between."""
    inside, empty = False, False
    for place, line in enumerate(lines):
        if place in fenced:
            inside = False
        elif _FOOTNOTE.match(line):
            inside = True
        elif not _is_blank(line) and empty:
            inside = inside and _indent(line) >= _TAB
        empty = _is_blank(line)
        if inside:
            yield place


def _indent(line: str) -> int:
    wide = line.expandtabs(_TAB)
    return len(wide) - len(wide.lstrip())


def _math(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """From `$$` to the next one: at the beginning of a line a block, alone also without an end; else in a paragraph."""
    opened: int | None = None
    block = False
    for place, line in enumerate(lines):
        if not block and (place in fenced or _is_blank(line)):
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
        yield from _unended(lines, opened, "$$")


def _brackets(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    r"""The same from `\[` at the beginning of a line to `\]`, which is math on Gitea and Forgejo."""
    opened: int | None = None
    for place, line in enumerate(lines):
        if place in fenced:
            continue
        if opened is None:
            begins = line.lstrip().startswith("\\[") and _indent(line) < _TAB
            opened = place if begins and "\\]" not in line else None
        elif "\\]" in line:
            yield from range(opened, place + 1)
            opened = None
    if opened is not None:
        yield from _unended(lines, opened, "\\[")


def _unended(lines: Sequence[str], opened: int, mark: str) -> Iterator[int]:
    """A block without an end: all that follows; with text behind the mark, which may be prose, its paragraph."""
    alone = lines[opened].rstrip().endswith(mark)
    for place in range(opened, len(lines)):
        if _is_blank(lines[place]) and not alone:
            return
        yield place


_CROSSED_OUT: Final = re.compile(r"(?<!~)~[^\s~][^~]*~(?!~)")
_BEGINS_CROSSED: Final = re.compile(r"(?<![\w~])~(?=[^\s~])")
_ENDS_CROSSED: Final = re.compile(r"(?<=[^\s~])~(?!~)")


def _crossed_out(lines: Sequence[str], fenced: Collection[int]) -> Iterator[int]:
    """The lines of a paragraph behind the one in which a single `~` begins, up to the one with its end."""
    opened: int | None = None
    for place, line in enumerate(lines):
        if place in fenced or _is_blank(line):
            opened = None
        elif "~" in line:
            rest = _CROSSED_OUT.sub("", _CODE_SPAN.sub("", line)) if opened is None else line
            if opened is not None and _ENDS_CROSSED.search(rest):
                yield from range(opened + 1, place + 1)
            opened = place if _BEGINS_CROSSED.search(rest) else opened
