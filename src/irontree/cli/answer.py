"""Answers in words: with `--answer`, before anything asks, and behind `irontree answer ISSUE`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from irontree.cli.parser import Declaration, argument
from irontree.domain.budgets import EXAMPLES, amount_of
from irontree.domain.halt import RULES, VALUES, Choice, Need
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused
from irontree.services.answers.answers import Answer
from irontree.services.proposals.approval import publication_order
from irontree.services.questions.questions import Question

_FORM = re.compile(
    r"(?:issue-(?P<number>[1-9]\d*)|loop|(?!issue-\d)(?P<key>[\w-]+))=(?P<choice>[a-z-]+)(?::(?P<rest>.*))?", re.DOTALL
)
_EXAMPLE: Final[dict[Need, str]] = {"count": "2", "amount": "5 USD", "revision": "NAME", "note": "NOTE"}


def fits(need: Need, text: str) -> bool:
    """Whether *text* is a well-formed value for what a choice needs."""
    return amount_of(text) is not None if need == "amount" else bool(VALUES[need].fullmatch(text))


@dataclass(frozen=True, slots=True)
class Prepared:
    """One prepared answer, for the issue with that `number` or task `key`; without both, for the loop itself."""

    text: str
    number: int | None
    key: str
    answer: Answer
    """The answer, not yet attributed to a user."""

    def answers(self, question: Question) -> bool:
        """Whether it is meant for this question."""
        names = [choice.name for choice in question.rule.choices]
        meant = question.task_key == self.key if self.key else question.issue_number == self.number
        return meant and self.answer.choice in names

    def by(self, name: str, question: Question) -> Answer:
        """The answer, attributed to the user *name*."""
        return replace(self.answer, by=name, question=question.key)


def answer_option(purpose: str) -> Declaration:
    """Declare `--answer`."""
    return argument("--answer", action="append", default=[], metavar="'issue-N=CHOICE[:NOTE]'", help=purpose)


def prepare(texts: Iterable[str]) -> tuple[Prepared, ...]:
    """Read all `--answer` options; raises AnswerRefused for the first that could never be an answer."""
    return tuple(_prepared(text) for text in texts)


def option_for(question: Question, choice: Choice) -> str:
    """The option that makes this choice: `--answer 'issue-7=send-back:NOTE'`."""
    example: dict[Need, str] = {"amount": EXAMPLES[question.budget.unit]} if question.budget else {}
    if question.revision:
        example["revision"] = question.revision
    return f"--answer '{_target(question.issue_number)}={_words(choice, example)}'"


def refuse_unknown(prepared: Sequence[Prepared], issues: Mapping[str, int]) -> None:
    """Raise AnswerRefused if an answer is for a task that is not in *issues* (issue numbers by task key)."""
    for answer in prepared:
        if answer.key and answer.key not in issues:
            raise AnswerRefused(
                f"--answer {answer.text!r}: there is no such task here", remedy=f"one of {', '.join(issues)}"
            )
        if answer.number is not None and answer.number not in issues.values():
            known = ", ".join(f"issue-{number}" for number in sorted(issues.values()))
            raise AnswerRefused(
                f"--answer {answer.text!r}: there is no such issue here", remedy=f"one of {known}, or a task key"
            )


def expected_numbers(nodes: Sequence[PlanNode], states: Mapping[str, TaskState]) -> dict[str, int]:
    """Issue numbers of a document's tasks by key: those they have, and the next free ones for new tasks."""
    after = itertools.count(1 + max((state.issue_number for state in states.values()), default=0))
    order = (node.task_key for node in publication_order(nodes))
    return {key: states[key].issue_number if key in states else next(after) for key in order}


def read_choice(words: str, *, for_loop: bool, begin: str) -> Answer:
    """The answer that `retry:3` or `send-back: too short` makes, not yet attributed to a user.

    Raises AnswerRefused for what could never be one; *begin* is what stands before it on the command line.
    """
    name, _, rest = words.partition(":")
    return _made(f"`{begin}{words}`", begin, _choice(f"`{begin}{words}`", name.strip(), for_loop=for_loop), rest)


def _prepared(text: str) -> Prepared:
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise AnswerRefused(
            f"--answer {text!r} is not understood", remedy="write it like 'issue-7=accept:note' or 'loop=extend:20'"
        )
    number, key = int(match["number"]) if match["number"] else None, match["key"] or ""
    shown = f"--answer {text!r}"
    choice = _choice(shown, match["choice"], for_loop=number is None and not key)
    return Prepared(text, number, key, _made(shown, f"{key or _target(number)}=", choice, match["rest"] or ""))


def _made(shown: str, begin: str, choice: Choice, rest: str) -> Answer:
    """The choice with the value it needs and a note, parsed from *rest*, which follows the choice in *shown*."""
    rest = rest.strip()
    needed = next((need for need in choice.needs if need != "note"), None)
    if needed is None:
        if choice.needs and not rest:
            raise _incomplete(shown, begin, choice, "note")
        return Answer(choice.name, by="", note=rest)
    value, _, note = rest.partition(":")
    if choice.name == "extend" and amount_of(value):
        return Answer(choice.name, by="", amount=value.strip(), note=note)
    if not VALUES[needed].fullmatch(value.lower()):
        raise _incomplete(shown, begin, choice, needed)
    if needed == "count":
        return Answer(choice.name, by="", count=int(value), note=note)
    return Answer(choice.name, by="", revision=value.lower(), note=note)


def _incomplete(shown: str, begin: str, choice: Choice, need: Need) -> AnswerRefused:
    example = f"{begin}{_words(choice)}"
    if choice.name == "extend":
        return AnswerRefused(
            f"{shown} needs a count from 1 to 50, or an amount with its unit",
            remedy=f"for transitions {example}; for what agents may spend {begin}extend:'{EXAMPLES['money']}'",
        )
    return AnswerRefused(f"{shown} needs a {need}", remedy=f"for example {example}")


def _target(number: int | None) -> str:
    return "loop" if number is None else f"issue-{number}"


def _words(choice: Choice, example: Mapping[Need, str] = MappingProxyType({})) -> str:
    return ":".join((choice.name, *(example.get(need, _EXAMPLE[need]) for need in choice.needs)))


def _choice(shown: str, name: str, *, for_loop: bool) -> Choice:
    asked_of = "loop" if for_loop else "issue"
    known = {choice.name: choice for rule in RULES if rule.asked_of == asked_of for choice in rule.choices}
    if name not in known:
        raise AnswerRefused(f"{shown}: there is no answer “{name}”", remedy=f"one of {', '.join(sorted(known))}")
    return known[name]
