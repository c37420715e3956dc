"""Answers that are given on the command line, before anything asks: `--answer 'issue-7=accept:note'`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from irontree.domain.halt import RULES, Choice
from irontree.errors import AnswerRefused
from irontree.services.answers import Answer
from irontree.services.steps import Question

_FORM = re.compile(r"(?P<target>issue-(?P<number>[1-9]\d*)|loop)=(?P<choice>[a-z-]+)(?::(?P<rest>.*))?", re.DOTALL)
_COUNT = re.compile(r"(?P<count>[1-9]\d?)(?::(?P<note>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prepared:
    """One prepared answer; `number` None is for the loop itself."""

    text: str
    number: int | None
    choice: str
    note: str = ""
    count: int | None = None

    def answers(self, question: Question) -> bool:
        """Whether it is meant for this question."""
        names = [choice.name for choice in question.rule.choices]
        return question.issue_number == self.number and self.choice in names

    def by(self, name: str, question: Question) -> Answer:
        """The answer in that person's name."""
        return Answer(self.choice, name, note=self.note, count=self.count, question=question.key)


def prepare(texts: Iterable[str]) -> tuple[Prepared, ...]:
    """Read all `--answer` options; raises AnswerRefused for the first that could never be an answer."""
    return tuple(_prepared(text) for text in texts)


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
    rest = match["rest"] or ""
    counted = _COUNT.fullmatch(rest) if "count" in choice.needs else None
    if "count" in choice.needs and not counted:
        raise AnswerRefused(
            f"--answer {text!r} needs a number", remedy=f"for example {match['target']}={choice.name}:2"
        )
    if "note" in choice.needs and not rest.strip():
        raise AnswerRefused(
            f"--answer {text!r} needs a note", remedy=f"for example {match['target']}={choice.name}:why"
        )
    if counted:
        return Prepared(text, number, choice.name, counted["note"] or "", int(counted["count"]))
    return Prepared(text, number, choice.name, rest)


def _choice(text: str, name: str, *, for_loop: bool) -> Choice:
    asked_of = "loop" if for_loop else "issue"
    known = {choice.name: choice for rule in RULES if rule.asked_of == asked_of for choice in rule.choices}
    if name not in known:
        raise AnswerRefused(
            f"--answer {text!r}: there is no answer “{name}”", remedy=f"one of {', '.join(sorted(known))}"
        )
    return known[name]
