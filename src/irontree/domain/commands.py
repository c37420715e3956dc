"""What a comment on an issue tells us to do: `/accept`, `/send-back NOTE`, `/retry 2` (protocol, Answers in comments).

The words are those of the table of halts (`domain/halt.py`). Pure: who may say them is asked elsewhere (ruling R20).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from irontree.domain.budgets import EXAMPLES, amount_of, leading_amount
from irontree.domain.halt import RULES, VALUES, Choice
from irontree.domain.requirements.markdown import lines_said

_LINE: Final = re.compile(
    r" {0,3}(?:(?:[-*+]|\d{1,9}[.)]) {1,3})?/([a-z]+(?:-[a-z]+)*)(?![\w/-])[.:,;!]?(.*)", re.IGNORECASE
)

CHOICES: Final[Mapping[str, Choice]] = {choice.word: choice for rule in RULES for choice in rule.choices}
"""Every choice of the table by its word in a comment."""
_WHAT: Final = {"count": "number from 1 to 50", "revision": "revision"}
_EXTENDING: Final = "extend"
"""What is extended, transitions or what agents may spend, is known where it is asked."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `argument` is what the choice needs to be named: a number, a revision or a Task Key."""

    choice: Choice
    argument: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A comment that means to command and cannot be followed; `reason` tells its author why."""

    reason: str


def parse_command(text: str) -> Command | Malformed | None:
    """The command in a comment; None for one that holds none, and for words that are another program's.

    It stands alone at the beginning of a line, or behind the bullet of a list, in any case. The rest of that line and
    what stands below it is the note. Code, quotes and what is hidden say nothing.
    """
    lines = lines_said(text) if "/" in text else ()
    found = [(at, match, CHOICES[match[1].lower()]) for at, match in _commanding(lines)]
    if not found:
        return None
    if len(found) > 1:
        words = " and ".join(f"`/{choice.word}`" for _, _, choice in found[:2])
        return Malformed(f"it says {words}, and a comment is one answer")
    at, match, choice = found[0]
    below = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[at + 1 :]
    return _command(choice, match[2].strip(), "\n".join(below).strip())


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
    """As `_first`, but that a unit may stand behind the number: `5 USD`."""
    amount = leading_amount(text)
    return (amount, text.removeprefix(amount).strip()) if amount else _first(text)
