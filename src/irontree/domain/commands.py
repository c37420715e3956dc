"""Parse what users ask for: comment commands such as `/accept`, and the words after `irontree task`.

The words are those of the table of halts (`domain/halt.py`). Pure: who may use them is checked elsewhere (R20).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from irontree.domain.budgets import EXAMPLES, amount_of, leading_amount
from irontree.domain.halt import RULES, VALUES, Choice
from irontree.domain.ids import parse_issue, typed_issue
from irontree.domain.requirements.markdown import lines_said, lines_unsaid
from irontree.domain.state import ADOPTED
from irontree.domain.text import shell_path, shown_name, suggestion

_LINE: Final = re.compile(r" {0,3}/([a-z]+(?:-[a-z]+)*)(?![\w/-])[.:,;!]?(.*)", re.IGNORECASE)
_DISCUSS: Final = re.compile(r" {0,3}/discuss\s*", re.IGNORECASE)

CHOICES: Final[Mapping[str, Choice]] = {choice.word: choice for rule in RULES for choice in rule.choices}
"""Every choice of the halt table by its word in a comment."""
_WHAT: Final = {"count": "number from 1 to 50", "revision": "revision"}
_EXTENDING: Final = "extend"
"""What is extended, transitions or what agents may spend, is known where it is asked."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `argument` is what the choice requires: a number, a revision or a Task Key."""

    choice: Choice
    argument: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A comment that is meant as a command but cannot be followed; `reason` tells its author why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unread(Malformed):
    """A line that would be a command in prose of its author's; it may be somebody else's."""

    word: str = ""


def unread_command(text: str) -> Unread | None:
    """The first line that would be a command elsewhere in the comment, and where it stands; for one without command."""
    for at, line, where in lines_unsaid(text, "/") if "/" in text else ():
        for _, match in _commanding((line,)):
            word = f"/{match[1].lower()}"
            return Unread(f"line {at + 1} begins with `{word}` and was not read, because it stands {where}", word)
    return None


def parse_command(text: str) -> Command | Malformed | None:
    """The command in a comment; `None` if it holds none, or only the command of another program.

    It begins a line in a paragraph of its own, in upper or lower case. The rest of that line and what is below it is
    the note. Whatever else Markdown has, such as quotes, lists, code, links and HTML, says nothing.
    """
    lines = lines_said(text, "/") if "/" in text else ()
    found = [(at, match, CHOICES[match[1].lower()]) for at, match in _commanding(lines)]
    if not found:
        return None
    if len(found) > 1:
        words = " and ".join(f"`/{choice.word}`" for _, _, choice in found[:2])
        return Malformed(f"it says {words}, and a comment is one answer")
    at, match, choice = found[0]
    below = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[at + 1 :]
    return _command(choice, match[2].strip(), "\n".join(below).strip())


def asks_to_discuss(text: str) -> bool:
    """Whether a comment has the team talk its issue over: a line `/discuss`, where a command would stand, and none."""
    lines = lines_said(text, "/") if "/" in text else ()
    return any(map(_DISCUSS.fullmatch, lines)) and parse_command(text) is None


def _commanding(lines: tuple[str, ...]) -> list[tuple[int, re.Match[str]]]:
    matches = ((at, _LINE.fullmatch(line.rstrip())) for at, line in enumerate(lines))
    return [(at, match) for at, match in matches if match and match[1].lower() in CHOICES]


def _command(choice: Choice, rest: str, below: str) -> Command | Malformed:
    argument = ""
    if choice.argument:
        argument, rest = _amount(rest) if choice.word == _EXTENDING else _first(rest)
        argument = argument.strip("`'\"“”,;:").lower()
        if choice.argument == "key" and not argument:
            return Malformed(f"`/{choice.word}` has to name the task: `{choice.usage()}`")
        if choice.argument in VALUES and not VALUES[choice.argument].fullmatch(argument) and not amount_of(argument):
            return Malformed(f"`/{choice.word}` needs a {_needed(choice)}: `{choice.usage()}`")
    note = "\n".join(filter(None, (rest.strip(), below)))
    if "note" in choice.needs and not note:
        return Malformed(f"`/{choice.word}` needs a note that says what to change: `{choice.usage()}`")
    return Command(choice, argument, note)


def _needed(choice: Choice) -> str:
    more = f", or an amount with its unit such as `{EXAMPLES['money']}`" if choice.word == _EXTENDING else ""
    return f"{_WHAT[choice.argument or '']}{more}"


def _first(text: str) -> tuple[str, str]:
    """The first word, and the rest."""
    first, rest = [*text.split(None, 1), "", ""][:2]
    return first, rest


def _amount(text: str) -> tuple[str, str]:
    """As `_first`, but a unit may follow the number: `5 USD`."""
    amount = leading_amount(text)
    return (amount, text.removeprefix(amount).strip()) if amount else _first(text)


# --- What the words after `irontree task` ask for


Action = Literal["continue", "skip", "cancel"]


@dataclass(frozen=True, slots=True)
class Unclear:
    """A request that cannot be acted on; `reason` and `remedy` are for the user who wrote it."""

    reason: str
    remedy: str = "give a Markdown document (SPEC.md), issues (#12 #13), first 5, or all open"
    document: str = ""
    """The path that was given, where no such file is there."""


@dataclass(frozen=True, slots=True)
class ResumeLoop:
    """Resume a halted loop, skip one of its tasks, or end it."""

    loop_id: str | None = None
    """`None`: the one that is open."""
    action: Action = "continue"
    skipped: str | None = None
    """An issue, as users type it, or a task key."""


@dataclass(frozen=True, slots=True)
class AdoptIssue:
    """Adopt one existing issue, and stop there."""

    number: int


@dataclass(frozen=True, slots=True)
class DocumentIntent:
    """A requirement document, to be made into a tree of issues."""

    path: str


@dataclass(frozen=True, slots=True)
class Issues:
    """Exactly these issues, in this order; those not adopted yet will be."""

    numbers: tuple[int, ...]

    @property
    def query(self) -> str:
        """What was looked up, for the loop's record."""
        names = ", ".join(f"#{number}" for number in self.numbers)
        return f"issue {names}" if len(self.numbers) == 1 else f"issues {names}"


@dataclass(frozen=True, slots=True)
class OpenIssues:
    """Adopted issues that are open, oldest first: all of them, or at most `limit`."""

    limit: int | None = None

    @property
    def query(self) -> str:
        """What was looked up, for the loop's record."""
        most = f", at most {self.limit}" if self.limit else ""
        return f"open issues labelled {ADOPTED}, oldest first{most}"


Intent = Unclear | ResumeLoop | AdoptIssue | DocumentIntent | Issues | OpenIssues

_ISSUE_WORDS: Final = r"(?:\s*(?:open|adopted|issues?|个|的|条|未关闭))*"
_FIRST: Final = re.compile(rf"(?:the\s+)?(?:first|top)\s+([0-9]+){_ISSUE_WORDS}", re.IGNORECASE)
_FIRST_ZH: Final = re.compile(rf"前\s*([0-9]+|[一二两三四五六七八九十]+){_ISSUE_WORDS}", re.IGNORECASE)
_ALL: Final = re.compile(r"all(?:\s+open)?(?:\s+adopted)?(?:\s+issues?)?", re.IGNORECASE)
_ALL_ZH: Final = re.compile(rf"(?:所有|全部){_ISSUE_WORDS}", re.IGNORECASE)
_DIGITS: Final = {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)} | {"两": 2}
_VERBS: Final = ("resume", "adopt", "first", "all")
_DOCUMENT_SUFFIXES: Final = (".md", ".markdown")


def resolve_intent(words: str, is_file: Callable[[str], bool]) -> Intent:
    """The intent that *words* express. *is_file* tells whether a path is a file.

    In this order: resume, adopt, a Markdown file that exists, issue numbers, the first N, all open; else `Unclear`.
    """
    text = " ".join(words.split())
    if not text:
        return Unclear("Nothing was asked for.")
    if found := _resume(text) or _adopt(text):
        return found
    if text.lower().endswith(_DOCUMENT_SUFFIXES):
        path = words.strip()
        return DocumentIntent(path) if is_file(path) else _no_document(path)
    return _issues(text) or _first_open(text) or _all(text) or _unclear(text)


def _unclear(text: str) -> Unclear:
    word = text.partition(" ")[0]
    close = "" if word in _VERBS else suggestion(word, _VERBS)
    return Unclear(f"Cannot infer intent from “{text}”{close or '.'}")


def _no_document(path: str) -> Unclear:
    """A document that does not exist; the remedy writes to that very path, so it overwrites none."""
    example = f"`irontree example > {shell_path(path)}` writes one to start from"
    return Unclear(f"there is no file {shown_name(path)}", example, document=path)


def _resume(text: str) -> Intent | None:
    verb, *words = text.split()
    if verb != "resume":
        return None
    loop_id = words.pop(0) if words and words[0] not in get_args(Action) else None
    match words:
        case [] | ["continue"]:
            return ResumeLoop(loop_id)
        case ["skip", issue]:
            return ResumeLoop(loop_id, "skip", issue)
        case ["cancel"]:
            return ResumeLoop(loop_id, "cancel")
        case _:
            close = suggestion(words[0], get_args(Action)) or "."
            return Unclear(f"“{' '.join(words)}” is no way to resume{close}", "continue, skip ISSUE, or cancel")


def _adopt(text: str) -> Intent | None:
    match text.split():
        case ["adopt", word] if number := typed_issue(word):
            return AdoptIssue(number)
        case ["adopt", *others]:
            return Unclear(f"“{' '.join(others)}” names no single issue to adopt.", "name one: adopt issue-12")
        case _:
            return None


def _issues(text: str) -> Issues | None:
    """Parse `#12`, `issue-12 #13`, `#12, #13 and #14`; an issue named twice counts once."""
    words = [word for word in re.split(r"[\s,、\uff0c]+|\band\b|和", text) if word]
    numbers = [parse_issue(word) for word in words]
    found = tuple(dict.fromkeys(number for number in numbers if number))
    return Issues(found) if numbers and None not in numbers else None


def _first_open(text: str) -> OpenIssues | None:
    match = _FIRST.fullmatch(text) or _FIRST_ZH.fullmatch(text)
    limit = _number(match[1]) if match else None
    return OpenIssues(limit) if limit else None


def _all(text: str) -> OpenIssues | None:
    return OpenIssues() if _ALL.fullmatch(text) or _ALL_ZH.fullmatch(text) else None


def _number(text: str) -> int | None:
    """Parse `10`, or `十`, `十二`, `二十`, `二十三`: up to 99; `None` for anything else."""
    if text.isascii():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1 or "十" in tens:
        return None
    return (_DIGITS.get(tens, 1) * 10 if ten else 0) + _DIGITS.get(ones, 0)
