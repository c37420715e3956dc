"""What a comment on a forge must not hold (Slim Comment Invariant, ruling R10), and how to make a text fit for one.

A rule's pattern finds the offence and its repair removes it: `comment_problems(slim(text))` is always empty.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from irontree.domain.credentials import HIDDEN, LOGIN_IN_URL, SECRET, WITHOUT_LOGIN
from irontree.domain.events import ISSUE_EVENTS, IssueEvent
from irontree.domain.loop_events import LOOP_EVENTS

MAX_CHARACTERS: Final = 60_000
"""Below the 65,536 that GitHub takes."""

_MARKER = re.compile(r"^<!-- irontree:[\w:.-]+ -->$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>()\[\]\"'`]+")
_PATH = r"[^\s`'\"()\[\]]"
_EVENTS = "|".join(sorted((*ISSUE_EVENTS, *LOOP_EVENTS), key=len, reverse=True))
_FIELDS = "|".join(name.replace("_", "[ _]") for name in IssueEvent.model_fields if "_" in name)


@dataclass(frozen=True, slots=True)
class _Rule:
    """An offence, what to call it, and what to put in its place."""

    problem: str
    pattern: re.Pattern[str]
    repair: str | Callable[[re.Match[str]], str]
    url_allowed: bool = False


def _no_hex(found: re.Match[str]) -> str:
    """A long number stays readable; a commit is linked to by the comment, or not named at all."""
    return f"{int(found[0]):,}" if found[0].isdecimal() else "(commit)"


_RULES: Final = (
    _Rule("a secret", SECRET, HIDDEN),
    _Rule("a login in an address", LOGIN_IN_URL, WITHOUT_LOGIN),
    _Rule("raw HTML", re.compile(r"<(?=[!/?a-z])", re.IGNORECASE), "&lt;"),
    _Rule("a code fence", re.compile("`{3,}|~{3,}"), "'''"),
    _Rule("a dump of the event log", re.compile(r"^[ \t]*-{3,}", re.MULTILINE), "\N{EM DASH}"),
    _Rule("a path under .mino", re.compile(rf"{_PATH}{{0,256}}(?<!\w)\.mino\b{_PATH}*"), "(a local file)"),
    _Rule("a YAML block", re.compile(r"\biron_tree\s*:"), "iron tree"),
    _Rule("a machine field", re.compile(rf"\b({_FIELDS})\s*:", re.IGNORECASE), "\\1 \N{EN DASH}"),
    _Rule(
        "the name of an event",
        re.compile(rf"\b({_EVENTS})\b"),
        lambda found: found[0].replace("_", " "),
        url_allowed=True,
    ),
    _Rule(
        "a bare commit SHA",
        re.compile(r"(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{7,64}(?![0-9a-z])", re.IGNORECASE),
        _no_hex,
        url_allowed=True,
    ),
)

_BADGES = "\N{CROSS MARK}\N{NO ENTRY SIGN}\N{DOUBLE VERTICAL BAR}\N{WARNING SIGN}"
_HEADING = re.compile(rf"[{_BADGES}]\ufe0f? .*#\d+.*")
_OTHER_BADGES = (
    "\N{WHITE HEAVY CHECK MARK}\N{HEAVY CHECK MARK}\N{HEAVY MULTIPLICATION X}\N{HOURGLASS}"
    "\N{HOURGLASS WITH FLOWING SAND}"
    "\N{LARGE GREEN CIRCLE}\N{LARGE RED CIRCLE}\N{LARGE YELLOW CIRCLE}"
)
_STATUS_EMOJI = re.compile(rf"[{_BADGES}{_OTHER_BADGES}]\ufe0f?")
_LINE = re.compile(r"(?P<label>Reason|Action): \S.*|(?P<link>Commit|Docs|Report): https?://\S+")


def comment_problems(text: str) -> tuple[str, ...]:
    """What must not be in any comment of ours, in words; empty if the text may be posted.

    The hidden marker line is exempt, and event names and SHAs inside a URL are.
    """
    visible = _MARKER.sub("", text)
    outside_urls = _URL.sub(" ", visible)
    found = [rule.problem for rule in _RULES if rule.pattern.search(outside_urls if rule.url_allowed else visible)]
    if len(text) > MAX_CHARACTERS:
        found.append(f"more than {MAX_CHARACTERS:,} characters")
    return tuple(found)


def status_problems(text: str) -> tuple[str, ...]:
    """As `comment_problems`, and a status comment is slim: a heading, `Reason:`, `Action:`, and links alone."""
    heading, *lines = [line for line in _MARKER.sub("", text).splitlines() if line.strip()] or [""]
    matches = [_LINE.fullmatch(line) for line in lines]
    labels = [match["label"] or match["link"] for match in matches if match]
    problems = list(comment_problems(text))
    if not _HEADING.fullmatch(heading):
        problems.append("no heading that names the issue")
    if not all(matches) or len(set(labels)) < len(labels) or "Action" not in labels:
        problems.append("more or less than Reason, Action and links")
    return tuple(problems)


def reply_problems(text: str) -> tuple[str, ...]:
    """As `comment_problems`, and a reply is prose: no status badge (protocol, Comment Classes)."""
    return (*comment_problems(text), *(("a status badge",) if _STATUS_EMOJI.search(text) else ()))


def is_marked(text: str) -> bool:
    """Whether it carries a hidden marker of ours, as a line of its own."""
    return _MARKER.search(text) is not None


def marked_problems(text: str) -> tuple[str, ...]:
    """What is wrong with a comment as it stands on the forge, by the class that its first line tells.

    A text without our marker is none of our comments, whoever wrote it: nothing is wrong with it.
    """
    if not is_marked(text):
        return ()
    return status_problems(text) if text.lstrip()[:1] in set(_BADGES) else reply_problems(text)


def plain(text: str) -> str:
    """As `slim`, for a reply: without status badges too."""
    return _STATUS_EMOJI.sub("", slim(_STATUS_EMOJI.sub("", text)))


def slim(text: str) -> str:
    """Text by people or programs, made fit for a comment: nothing hidden, no machine's words, nobody called."""
    text = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"})
    repaired = _repaired(text)
    while repaired != text:  # one repair can lay bare what another is for
        text, repaired = repaired, _repaired(repaired)
    return re.sub(r"@(?=\w)", "@\N{ZERO WIDTH SPACE}", text)


def _repaired(text: str) -> str:
    for rule in _RULES:
        text = _outside_urls(rule, text) if rule.url_allowed else rule.pattern.sub(rule.repair, text)
    return text


def _outside_urls(rule: _Rule, text: str) -> str:
    pieces, end = [], 0
    for url in _URL.finditer(text):
        pieces += [rule.pattern.sub(rule.repair, text[end : url.start()]), url[0]]
        end = url.end()
    return "".join([*pieces, rule.pattern.sub(rule.repair, text[end:])])
