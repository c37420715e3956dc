"""Answers that are given on the command line, before anything asks: `--answer 'issue-7=accept:note'`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from irontree.domain.halt import RULES, Choice, Need
from irontree.errors import AnswerRefused
from irontree.services.answers import Answer
from irontree.services.steps import Question

_FORM = re.compile(r"(?P<target>issue-(?P<number>[1-9]\d*)|loop)=(?P<choice>[a-z-]+)(?::(?P<rest>.*))?", re.DOTALL)
VALUES: Final[dict[Need, re.Pattern[str]]] = {
    "count": re.compile(r"[1-9]|[1-4]\d|50"),
    "revision": re.compile(r"[0-9a-f]{8}"),
}
"""How what a choice needs is written."""
_EXAMPLE: Final[dict[Need, str]] = {"count": "2", "revision": "REVISION", "note": "NOTE"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """One prepared answer; `number` None is for the loop itself."""

    text: str
    number: int | None
    choice: str
    note: str = ""
    count: int | None = None
    revision: str | None = None

    def answers(self, question: Question) -> bool:
        """Whether it is meant for this question."""
        names = [choice.name for choice in question.rule.choices]
        return question.issue_number == self.number and self.choice in names

    def by(self, name: str, question: Question) -> Answer:
        """The answer in that person's name."""
        return Answer(
            self.choice, name, note=self.note, count=self.count, revision=self.revision, question=question.key
        )


def prepare(texts: Iterable[str]) -> tuple[Prepared, ...]:
    """Read all `--answer` options; raises AnswerRefused for the first that could never be an answer."""
    return tuple(_prepared(text) for text in texts)


def option_for(question: Question, choice: Choice) -> str:
    """The option that makes this choice: `--answer 'issue-7=send-back:NOTE'`."""
    return f"--answer '{_target(question.issue_number)}={_words(choice)}'"


def refuse_unknown(prepared: Sequence[Prepared], numbers: Sequence[int]) -> None:
    """Raise AnswerRefused if one is meant for an issue that is not in the plan."""
    for answer in prepared:
        if answer.number is not None and answer.number not in numbers:
            known = ", ".join(f"issue-{number}" for number in numbers)
            raise AnswerRefused(f"--answer {answer.text!r}: there is no such issue here", remedy=f"one of {known}")


def _prepared(text: str) -> Prepared:
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise AnswerRefused(
            f"--answer {text!r} is not understood", remedy="write it like 'issue-7=accept:note' or 'loop=extend:20'"
        )
    number = int(match["number"]) if match["number"] else None
    choice = _choice(text, match["choice"], for_loop=number is None)
    return _filled(Prepared(text, number, choice.name), choice, (match["rest"] or "").strip())


def _filled(prepared: Prepared, choice: Choice, rest: str) -> Prepared:
    """With what the choice needs, and a note, taken from what stands behind it."""
    needed = next((need for need in choice.needs if need != "note"), None)
    if needed is None:
        if choice.needs and not rest:
            raise _incomplete(prepared, choice, "note")
        return replace(prepared, note=rest)
    value, _, note = rest.partition(":")
    if not VALUES[needed].fullmatch(value.lower()):
        raise _incomplete(prepared, choice, needed)
    if needed == "count":
        return replace(prepared, count=int(value), note=note)
    return replace(prepared, revision=value.lower(), note=note)


def _incomplete(prepared: Prepared, choice: Choice, need: Need) -> AnswerRefused:
    example = f"{_target(prepared.number)}={_words(choice)}"
    return AnswerRefused(f"--answer {prepared.text!r} needs a {need}", remedy=f"for example {example}")


def _target(number: int | None) -> str:
    return "loop" if number is None else f"issue-{number}"


def _words(choice: Choice) -> str:
    return ":".join((choice.name, *(_EXAMPLE[need] for need in choice.needs)))


def _choice(text: str, name: str, *, for_loop: bool) -> Choice:
    asked_of = "loop" if for_loop else "issue"
    known = {choice.name: choice for rule in RULES if rule.asked_of == asked_of for choice in rule.choices}
    if name not in known:
        raise AnswerRefused(
            f"--answer {text!r}: there is no answer “{name}”", remedy=f"one of {', '.join(sorted(known))}"
        )
    return known[name]
