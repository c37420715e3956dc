"""What the words after `irontree task` ask for: resolved once, first match wins (protocol, Intent Resolution)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from irontree.domain.ids import parse_issue, typed_issue

ADOPTED_LABEL: Final = "iron-tree:adopted"
Action = Literal["continue", "skip", "cancel"]


@dataclass(frozen=True, slots=True)
class Unclear:
    """Nothing that could be acted on; `reason` and `remedy` are for the person who wrote it."""

    reason: str
    remedy: str = "give a Markdown document (SPEC.md), issues (#12 #13), first 5, or all open"


@dataclass(frozen=True, slots=True)
class ResumeLoop:
    """Go on with a halted loop, leave one task of it out, or end it."""

    loop_id: str
    action: Action = "continue"
    skipped: str | None = None
    """An issue, as people type it, or a task key."""


@dataclass(frozen=True, slots=True)
class AdoptIssue:
    """Take one existing issue over, and stop there."""

    number: int


@dataclass(frozen=True, slots=True)
class Document:
    """A requirement document: a tree of issues is to be made of it."""

    path: str


@dataclass(frozen=True, slots=True)
class Issues:
    """Exactly these issues, in this order; those that are not adopted yet will be."""

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
        return f"open issues labelled {ADOPTED_LABEL}, oldest first{most}"


Intent = Unclear | ResumeLoop | AdoptIssue | Document | Issues | OpenIssues

_ISSUE_WORDS: Final = r"(?:\s*(?:open|adopted|issues?|个|的|条|未关闭))*"
_FIRST: Final = re.compile(rf"(?:the\s+)?(?:first|top)\s+([0-9]+){_ISSUE_WORDS}", re.IGNORECASE)
_FIRST_ZH: Final = re.compile(rf"前\s*([0-9]+|[一二两三四五六七八九十]+){_ISSUE_WORDS}", re.IGNORECASE)
_ALL: Final = re.compile(r"all(?:\s+open)?(?:\s+adopted)?(?:\s+issues?)?", re.IGNORECASE)
_ALL_ZH: Final = re.compile(rf"(?:所有|全部){_ISSUE_WORDS}", re.IGNORECASE)
_DIGITS: Final = {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)} | {"两": 2}
_EXAMPLE: Final = "`irontree example > SPEC.md` writes one to start from"
_DOCUMENT_SUFFIXES: Final = (".md", ".markdown")


def resolve_intent(words: str, is_file: Callable[[str], bool]) -> Intent:
    """What *words* ask for. *is_file* tells whether a path is a file.

    In this order: resume, adopt, a Markdown file that exists, issue numbers, the first N, all open; else `Unclear`.
    """
    text = " ".join(words.split())
    for resolve in (_empty, _resume, _adopt):
        if found := resolve(text):
            return found
    if text.lower().endswith(_DOCUMENT_SUFFIXES):
        path = words.strip()
        return Document(path) if is_file(path) else Unclear(f"there is no file {path}", _EXAMPLE)
    return _issues(text) or _first(text) or _all(text) or Unclear(f"Cannot infer intent from “{text}”.")


def _empty(text: str) -> Intent | None:
    return None if text else Unclear("Nothing was asked for.")


def _resume(text: str) -> Intent | None:
    match text.split():
        case ["resume"]:
            return Unclear("Which loop is to be resumed?", "`irontree loops` lists them: irontree task resume LOOP_ID")
        case ["resume", loop_id] | ["resume", loop_id, "continue"]:
            return ResumeLoop(loop_id)
        case ["resume", loop_id, "skip", issue]:
            return ResumeLoop(loop_id, "skip", issue)
        case ["resume", loop_id, "cancel"]:
            return ResumeLoop(loop_id, "cancel")
        case ["resume", _, *action]:
            return Unclear(f"“{' '.join(action)}” is no way to resume.", "continue, skip ISSUE, or cancel")
        case _:
            return None


def _adopt(text: str) -> Intent | None:
    match text.split():
        case ["adopt", word] if number := typed_issue(word):
            return AdoptIssue(number)
        case ["adopt", *others]:
            return Unclear(f"“{' '.join(others)}” names no single issue to adopt.", "name one: adopt issue-12")
        case _:
            return None


def _issues(text: str) -> Issues | None:
    """`#12`, `issue-12 #13`, `#12, #13 and #14`; one that is named twice counts once."""
    words = [word for word in re.split(r"[\s,、\uff0c]+|\band\b|和", text) if word]
    numbers = [parse_issue(word) for word in words]
    found = tuple(dict.fromkeys(number for number in numbers if number))
    return Issues(found) if numbers and None not in numbers else None


def _first(text: str) -> OpenIssues | None:
    match = _FIRST.fullmatch(text) or _FIRST_ZH.fullmatch(text)
    limit = _number(match[1]) if match else None
    return OpenIssues(limit) if limit else None


def _all(text: str) -> OpenIssues | None:
    return OpenIssues() if _ALL.fullmatch(text) or _ALL_ZH.fullmatch(text) else None


def _number(text: str) -> int | None:
    """`10`, or `十`, `十二`, `二十`, `二十三`: up to 99; None for what is no such number."""
    if text.isascii():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    if len(tens) > 1 or len(ones) > 1 or "十" in tens:
        return None
    return (_DIGITS.get(tens, 1) * 10 if ten else 0) + _DIGITS.get(ones, 0)
