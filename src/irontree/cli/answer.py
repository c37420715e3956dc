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
from irontree.domain.halt import RULES, VALUES, Choice, Need, choice_called
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused
from irontree.services.answers.answers import Answer
from irontree.services.proposals.approval import publication_order
from irontree.services.questions.commands import answers_to
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
        meant = question.task_key == self.key if self.key else question.issue_number == self.number
        return meant and choice_called(self.answer.choice, question.rule.choices) is not None

    def by(self, name: str, question: Question) -> Answer:
        """The answer to this question, attributed to the user *name*.

        It is read again, now that the question is known: a word such as `retry` may need a number at another one.
        Raises AnswerRefused for what does not fit.
        """
        target, _, words = self.text.strip().partition("=")
        return replace(read_choice(words, question, begin=f"{target}="), by=name, question=question.key)


def answer_option(purpose: str) -> Declaration:
    """Declare `--answer`."""
    return argument("--answer", action="append", default=[], metavar="'issue-N=CHOICE[:NOTE]'", help=purpose)


def prepare(texts: Iterable[str]) -> tuple[Prepared, ...]:
    """Read all `--answer` options; raises AnswerRefused for the first that could never be an answer."""
    return tuple(_prepared(text) for text in texts)


def option_for(question: Question, choice: Choice, shown: str = "") -> str:
    """The option that makes this choice: `--answer 'issue-7=reject:NOTE'`. *shown* names what is shown for approval."""
    example: dict[Need, str] = {"amount": EXAMPLES[question.budget.unit]} if question.budget else {}
    if revision := shown or question.revision:
        example["revision"] = revision
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


def read_choice(words: str, question: Question, *, begin: str) -> Answer:
    """The answer to *question* that `retry:3` or `reject: too short` makes, not yet attributed to a user.

    Raises AnswerRefused for what does not fit it; *begin* is what stands before it on the command line.
    """
    name, _, rest = words.partition(":")
    choice = choice_called(name.strip(), question.rule.choices)
    if choice is None:
        raise AnswerRefused(
            f"“{name.strip()}” is no answer to “{question.rule.title}”",
            remedy=" | ".join(f"`{command}`" for _, command in answers_to(question)),
        )
    return _made(f"`{begin}{words}`", begin, choice, rest, question)


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


def _made(shown: str, begin: str, choice: Choice, rest: str, question: Question | None = None) -> Answer:
    """The choice with the value it needs and a note, parsed from *rest*, which follows the choice in *shown*.

    One more attempt is meant where `retry` says no number, as by the verb.
    """
    rest = rest.strip()
    needed = next((need for need in choice.needs if need != "note"), None)
    if needed is None:
        if choice.needs and rest in ("", _EXAMPLE["note"]):
            raise _incomplete(shown, begin, choice, "note", question)
        if question and choice.spoken and rest.partition(":")[0].strip().isdecimal():
            raise AnswerRefused(
                f"{shown}: “{question.rule.title}” allows no number of attempts, and a number is no note",
                remedy=f"`{begin}{choice.typed}` goes on; `{begin}{choice.typed}:NOTE` with a note in words",
            )
        return Answer(choice.name, by="", note=rest)
    value, _, note = rest.partition(":")
    if choice.name == "extend" and amount_of(value):
        return Answer(choice.name, by="", amount=value.strip(), note=note)
    if choice.name == "retry" and not rest[:1].isdigit():
        return Answer(choice.name, by="", count=1, note=rest)
    if not fits(needed, value.strip().lower()):
        raise _incomplete(shown, begin, choice, needed, question)
    if needed == "count":
        return Answer(choice.name, by="", count=int(value), note=note)
    return Answer(choice.name, by="", revision=value.strip().lower(), note=note)


def _incomplete(shown: str, begin: str, choice: Choice, need: Need, question: Question | None) -> AnswerRefused:
    if need == "revision":
        look = question.look if question and question.look else "irontree task SPEC.md --plan"
        known = question.revision if question else None
        now = f"now it is `{begin}{choice.name}:{known}`; " if known else ""
        return AnswerRefused(
            f"{shown} needs the name of what is approved: the digits that stand at the top of the plan",
            remedy=f"{now}`{look}` shows it, and what would be approved",
        )
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
    return ":".join((choice.typed, *(example.get(need, _EXAMPLE[need]) for need in choice.needs)))


def _choice(shown: str, name: str, *, for_loop: bool) -> Choice:
    asked_of = "loop" if for_loop else "issue"
    known = tuple(choice for rule in RULES if rule.asked_of == asked_of for choice in rule.choices)
    choice = choice_called(name, known)
    if choice is None:
        words = sorted({choice.typed for choice in known})
        raise AnswerRefused(f"{shown}: there is no answer “{name}”", remedy=f"one of {', '.join(words)}")
    return choice
