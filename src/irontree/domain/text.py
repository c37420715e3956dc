"""Text from users and programs: suggestions for typos, unsafe characters, and what looks like a secret.

A secret has the shape of a forge's or provider's token, or is the value of an environment variable with such a name.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

TRUNCATION_MARKER: Final = "...(truncated)..."
"""Stands where something was cut out."""


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The member of *known* closest to *text*, if any is close."""
    import difflib  # noqa: PLC0415  (input without a mistake need not wait for it)

    return next(iter(difflib.get_close_matches(text, known, n=1)), None)


def suggestion(text: str, known: Iterable[str], shown: str = "{}") -> str:
    """The end of a refusal that names the nearest of *known*, written as in *shown*; empty if none is close."""
    close = nearest(text, known)
    return f"; did you mean {shown.format(close)}?" if close else ""


def few(items: Sequence[str], most: int = 5) -> str:
    """The first *most* of *items*, and how many there are besides."""
    rest = len(items) - most
    return f"{', '.join(items[:most])}{f' and {rest} more' if rest > 0 else ''}"


def counted(number: int, what: str) -> str:
    """`1 commit`, `3 commits`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    """`never`, `once`, `3 times`."""
    return {0: "never", 1: "once"}.get(number, f"{number} times")


# git-check-ref-format(1): what no component and no name may hold, or begin or end with.
_NO_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|(?:^|/)\.|\.lock(?:/|$)|^HEAD$")


def is_ref_name(name: str) -> bool:
    """Whether git accepts *name* for a branch, and so for a remote (`git check-ref-format --branch`)."""
    return bool(name) and not _NO_REF.search(name)


_COMMIT: Final = re.compile(r"(?i)[0-9a-f]{40}|[0-9a-f]{64}")


def why_no_branch(name: str) -> str:
    """Why nothing should be a branch of that *name*, also where git takes it; empty if it can be one."""
    if not is_ref_name(name):
        return "git takes no such name"
    if name == "@":
        return "git reads it as the commit that is checked out"
    if name.startswith("refs/"):
        return "git would put it below refs/heads/ once more; leave refs/heads/ out"
    return "git would read it as a commit" if _COMMIT.fullmatch(name) else ""


# --- Characters that move a cursor, hide text, or show it in another order than it is in


# Terminal sequences; an unterminated one takes the rest of the line, or only its first two characters.
_SEQUENCE: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\){}|[@-Z\\-_])"
_ESCAPES: Final = _SEQUENCE.format("?")
ENDED_ESCAPES: Final = _SEQUENCE.format("")
_LINE_ENDS: Final = "\r\n|[\r\x0b\x0c\x85\u2028\u2029]"
_CONTROLS: Final = "\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069"
_UNWANTED: Final = f"[{_CONTROLS}\ufeff\ud800-\udfff]"
_TAGS: Final = "\u2060-\u2064\U000e0000-\U000e007f\U000e0100-\U000e01ef"
"""Invisible everywhere, and able to hold a whole text: a model reads it, a person does not."""
FILLERS: Final = "\u115f\u1160\u3164\uffa0"
"""Letters of Hangul that show nothing."""
DECEPTIVE: Final = f"[{_CONTROLS}\x0b{_TAGS}]|[\u200b-\u200d\ufeff{FILLERS}]{{2,}}"
"""Characters not allowed in a document: approvers must see what they approve.

Marks between words and in emoji stand alone; several in a row can hold a text as well.
"""


_PLAIN_SCRIPTS: Final = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ")


def lookalikes(text: str) -> tuple[str, ...]:
    """The characters of *text* that may pass for others or be seen by nobody, each once, by number and name.

    That is all but ASCII, letters of it with an accent, and scripts in which nothing looks like ASCII.
    """
    return tuple(dict.fromkeys(_numbered(char) for char in text if not char.isascii() and _may_deceive(char)))


def _may_deceive(char: str) -> bool:
    name = unicodedata.name(char, "")
    accented = unicodedata.normalize("NFD", char)
    plain = name.startswith(_PLAIN_SCRIPTS) and char not in FILLERS
    return not (plain or (len(accented) > 1 and accented[0].isascii()))


def _numbered(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}"


def harmless(text: str) -> str:
    """*text* without escape sequences and control characters; lines and tabs stay."""
    if text.isprintable():  # most texts are: the patterns, whose sets are large, are compiled for the first that is not
        return text
    return re.sub(_UNWANTED, "", re.sub(_LINE_ENDS, "\n", re.sub(_ESCAPES, "", text)))


def printable(text: str) -> str:
    """*text* for a terminal: harmless, and without bidirectional marks."""
    return harmless(text).translate({0x200E: None, 0x200F: None})


def one_line(text: str) -> str:
    """*text* for a terminal, joined into one line."""
    return " ".join(printable(text).split())


def sentence(text: str) -> str:
    """*text* with a capital at its beginning, unless that is a name: code, a path, or a word with more than letters."""
    first = text.split(" ", 1)[0].rstrip(",.:;")
    return text[:1].upper() + text[1:] if first.replace("'", "").isalpha() and first.islower() else text


# --- Text that has no effect where it is shown: on a page, in a report, on a forge


_NOTHING: Final = "\N{ZERO WIDTH SPACE}"
_TAG: Final = r"(?i)<(?=[!/?a-z])"
# Addresses, links, images and their definitions. A backslash before a mark is not shown, and hides nothing.
_ON_PAGE: Final = r"(?i):(?=\\?/\\?/)|(?<![^\W_])www(?=\\?\.)|(?<=[\w.+-])\\?@(?=\w)|\](?=[(\[:])"
# Also mentions, issues and requests (`#1`, `GH-1`, `o/r#1`, `!1`), wiki links.
_ON_FORGE: Final = rf"{_ON_PAGE}|@(?=\\?\w)|[#!](?=\d)|(?<![^\W_])GH\\?-(?=\d)|\[(?=\\?\[)"


def inert(text: str, tick: str = "&grave;", *, forge: bool = False) -> str:
    """*text* as Markdown that shows the same and does nothing: no link, image or tag.

    On a *forge* no mention, reference or closing keyword either. A mark that is not seen stands where it would begin;
    code spans stay as they are if no others can be made of them. *tick* takes the place of a backtick that belongs to
    none.
    """
    effect = _ON_FORGE if forge else _ON_PAGE
    shown = re.sub(_TAG, "&lt;", text)
    if "`" not in shown or "\n" in shown:
        return _without(effect, shown)
    if "\\`" in shown:
        return _without(effect, shown).replace("`", tick)
    spans, end, pieces = _code_spans(shown), 0, list[str]()
    for start, stop in spans:
        pieces += [_without(effect, shown[end:start]).replace("`", tick), shown[start:stop]]
        end = stop
    return "".join([*pieces, _without(effect, shown[end:]).replace("`", tick)])


# What forges read as "this closes (or opens) that issue": a word directly before the reference.
_CLOSES: Final = (
    r"(?i)\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|reopen(?:s|ed|ing)?):?\s+"
    r"(?=\S*#\d|GH-\d|https?://)"
)


def without_closing(text: str) -> str:
    """*text* that refers to the same issues and closes none: only evidence closes one."""
    return re.sub(_CLOSES, r"\1, see ", text)


def _without(effect: str, text: str) -> str:
    return re.sub(effect, rf"\g<0>{_NOTHING}", text)


def unmarked(text: str) -> str:
    """*text* without the marks of `inert`, to be copied from a terminal."""
    return text.replace(_NOTHING, "")


def piped(text: str) -> str:
    """The same for a pipe: where it is read as Markdown, what `inert` kept from being an image stays none."""
    return unmarked("\n".join(map(_without_images, text.split("\n"))))


def _without_images(line: str) -> str:
    if "![" not in line or f"]{_NOTHING}" not in line:
        return line
    end, pieces = 0, list[str]()
    for start, stop in _code_spans(line):
        pieces += [line[end:start].replace("![", r"!\["), line[start:stop]]
        end = stop
    return "".join([*pieces, line[end:].replace("![", r"!\[")])


def _code_spans(line: str) -> list[tuple[int, int]]:
    """Where the code spans of a line begin and end: from one run of backticks to the next of that length."""
    runs = [found.span() for found in re.finditer("`+", line)]
    following: dict[int, int] = {}
    partner = [0] * len(runs)
    for place in reversed(range(len(runs))):
        length = runs[place][1] - runs[place][0]
        partner[place] = following.get(length, 0)
        following[length] = place
    spans, place = [], 0
    while place < len(runs):
        other = partner[place]
        if other:
            spans.append((runs[place][0], runs[other][1]))
        place = other + 1 if other else place + 1
    return spans


# --- Words of commands to be copied into a shell


def shell_word(word: str) -> str:
    """*word* quoted for a POSIX shell, in characters that every terminal shows and no filter of ours changes.

    Others are written by their bytes, in `$'…'`: line ends, bytes that are no text, marks that turn the direction.
    """
    if word.isprintable() and "  " not in word:
        return shlex.quote(word)
    return f"$'{re.sub('(?<= ) ', _octal, ''.join(map(_in_dollar_quotes, word)))}'"


def shown_name(name: str) -> str:
    """*name* in a sentence: as it is if all of it can be seen, else as in a shell, so that it passes for no other."""
    return name if name.isprintable() else shell_word(name)


def shell_path(path: str) -> str:
    """A path as such a word; one that begins with a dash is no option."""
    return shell_word(f"./{path}" if path.startswith("-") else path)


def shell_line(words: Iterable[str]) -> str:
    """A command of these words."""
    return " ".join(map(shell_word, words))


def _in_dollar_quotes(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else _octal(char)


def _octal(char: str | re.Match[str]) -> str:
    """Three octal digits for each byte; as file names are decoded, a byte that is no text is a surrogate."""
    text = char if isinstance(char, str) else char[0]
    errors = "surrogateescape" if "\udc80" <= text <= "\udcff" else "replace"
    return "".join(f"\\{byte:03o}" for byte in text.encode("utf-8", errors))


# --- Secrets


HIDDEN: Final = "(secret)"
MIN_LENGTH: Final = 8
"""Shorter values may as well be ordinary words."""

# Texts: `re` compiles and keeps each with its first use, and most commands look for no secret.
_NAME = r"(?i)TOKEN|SECRET|PASSW|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|AUTH_STRING"
_SHAPES = (
    r"gh[pousr]_[A-Za-z0-9]{30,}",
    r"github_pat_\w{22,}",
    r"gl(?:pat|cbt|dt|rt|oas|soat|ptt|ft|imt|agent)-[\w.-]{20,}",
    r"ATBB[A-Za-z0-9]{24,}",
    r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{20,}",
    r"xox[abeoprs]-[\w-]{10,}",
    r"sk-[\w-]{20,}",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[\w-]{32,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"dop_v1_[0-9a-f]{64}",
    r"SG\.[\w-]{16,64}\.[\w-]{16,64}",
    r"hv[sb]\.[\w-]{24,}",
    r"ATATT3[\w=-]{40,}",
    r"AccountKey=[A-Za-z0-9+/]{80,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    r"(?:dapi|SK|key-|shp(?:at|ca|pa|ss)_)[0-9a-fA-F]{32}(?![A-Za-z0-9])",
    r"(?:sbp_[0-9a-f]{40}|rubygems_[0-9a-f]{48}|glsa_\w{32,}|figd_[\w-]{20,}|nfp_\w{30,}|dp\.[a-z]{2,8}\.\w{40,})",
    r"(?:gsk_\w{40,}|xai-\w{60,}|r8_\w{30,}|pplx-\w{40,}|nvapi-[\w-]{40,}|lin_api_\w{32,}|ntn_\w{40,})",
    r"(?:pscale_\w{3,8}_[\w.-]{32,}|fm2_[\w+/=]{60,}|dckr_pat_[\w-]{20,}|sntry[su]_[\w+/=]{40,}|cio[A-Za-z0-9]{32}(?!\w))",
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",
    r"\d{8,10}:AA[\w-]{33}(?![\w-])",
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    r"(?:whsec_[\w+/=]{24,}|GOCSPX-[\w-]{20,}|sq0(?:atp|csp)-[\w-]{20,})",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{20,}",
    r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{10,}/[\w-]{30,}",
    r"eyJ[\w-]{10,1024}\.eyJ[\w-]{10,}\.[\w-]{5,}",  # bounded: it may begin again after each dash of a hostile line
)
# A token begins behind no letter or digit, unless that ends an escape, as of a line in JSON, or a colour.
_ESCAPED = (
    r"\\[abefnrtv0]",
    r"\\[0-7]{3}",
    r"\\x[0-9A-Fa-f]{2}",
    r"\\u[0-9A-Fa-f]{4}",
    r"\\U[0-9A-Fa-f]{8}",
    *(rf"%{again}[0-9A-Fa-f]{{2}}" for again in ("", "25", "2525", "252525")),
    r"=[0-9A-Fa-f]{2}",
    r"\b[Bb]earer",
    *(rf"[\[;]{number}[mK]" for number in ("", r"\d", r"\d\d", r"\d\d\d")),
)
_BEGINS = f"(?:(?<![A-Za-z0-9])|{'|'.join(f'(?<={escape})' for escape in _ESCAPED)})"
# No token is shorter or begins with other characters, and no escape is longer: this passes over most places of a text,
# and over those inside a long word, at once.
_SHORTEST = "[A-Za-z0-9_.:/=+-]{14}"
_MAY_BEGIN = rf"(?={_SHORTEST})(?<![A-Za-z0-9]{{10}})"
_TOKEN = f"{_MAY_BEGIN}{_BEGINS}(?:{'|'.join(_SHAPES)})"
_KEY_BLOCK = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]{0,40}-----)?"
_PUTTY_KEY = r"PuTTY-User-Key-File-\d: ?(?:ssh|ecdsa)(?:(?!Private-MAC:)[\s\S])*(?:Private-MAC: ?[0-9a-fA-F]{0,64})?"
SECRET: Final = f"{_KEY_BLOCK}|{_PUTTY_KEY}|{_TOKEN}"
"""A token of a common service, a JSON web token, or a private key."""
_MAY_HOLD: Final = f"{_SHORTEST}|-----BEGIN|PuTTY-User-Key-File"
"""How each of them begins."""
# Of a terminal, also as source writes them. Not the text of a link or title: that is searched.
_WRITTEN_ESCAPE = r"\\(?:e|0?33|x1[bB]|u001[bB]|U0000001[bB]|u\{1[bB]\})|%1[bB]|\^\["
_TERMINAL = rf"(?:(?:\x1b|{_WRITTEN_ESCAPE})(?:\[[0-?]*[ -/]*[@-~]|[ -/]+[0-~])|[\x9b\udc9b][0-?]*[ -/]*[@-~])"
_MARKS_SEQUENCE = r"[\x1b\x9b\udc9b\\%^]"
_LOGIN = "[^\\s/?#@<>\"'`*]"
LOGIN_IN_URL: Final = (
    rf"(?i)(?P<scheme>\b[a-z][a-z0-9+.-]{{0,15}}://)"
    rf"(?:(?:(?<=http://)|(?<=https://)){_LOGIN}{{1,256}}|{_LOGIN}{{0,128}}:{_LOGIN}{{1,128}})@"
)
"""User and password before the host of an address; for http(s) also a user alone, which is mostly a token."""
WITHOUT_LOGIN: Final = r"\g<scheme>***@"


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of variables with a secret's name; of a multi-line value, each line."""
    found = (value for name, value in environment.items() if re.search(_NAME, name))
    return frozenset(line for value in found for line in map(str.strip, value.splitlines()) if len(line) >= MIN_LENGTH)


class Found(NamedTuple):
    """Where something looks like a secret, and what it is without what moves a cursor."""

    start: int
    end: int
    seen: str


def secrets_in(text: str) -> Iterator[Found]:
    """What looks like a secret, also directly behind a sequence for terminals or with one inside.

    It is looked for in the text as it is, because a sequence may take a letter of it, with the sequences blanked, and
    without them: linear in time.
    """
    yield from (Found(*found.span(), found[0]) for found in _looked_for(text))
    sequences = [found.span() for found in re.finditer(_TERMINAL, text)] if re.search(_MARKS_SEQUENCE, text) else []
    if not sequences:
        return
    blank = re.sub(_TERMINAL, lambda found: "\0" * len(found[0]), text)
    yield from (Found(*found.span(), found[0]) for found in _looked_for(blank))
    places, removed = list[int](), 0  # of what was left out: where in the shorter text, and how much until then
    shifts = [0]
    for start, end in sequences:
        places.append(start - removed)
        removed += end - start
        shifts.append(removed)
    for found in _looked_for(re.sub(_TERMINAL, "", text)):
        start = found.start() + shifts[bisect_right(places, found.start())]
        yield Found(start, found.end() + shifts[bisect_left(places, found.end())], found[0])


def _looked_for(text: str) -> Iterator[re.Match[str]]:
    """The secrets in *text*. The pattern tries each place in many ways; most texts have none where one may begin."""
    first = re.search(_MAY_HOLD, text)
    return re.compile(SECRET).finditer(text, first.start()) if first else iter(())


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """*text* with everything that looks like a secret, and each of *values*, hidden."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    pieces, done = list[str](), 0
    for found in sorted(secrets_in(text)):
        if found.start >= done:
            pieces += [text[done : found.start], HIDDEN]
        done = max(done, found.end)
    hidden = "".join([*pieces, text[done:]])
    # The pattern tries every place of a text where a scheme might begin; most texts hold no address.
    return re.sub(LOGIN_IN_URL, WITHOUT_LOGIN, hidden) if "://" in hidden else hidden
