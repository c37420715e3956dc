"""A person's approval or answer on the command line: typed before as an option, or asked for here and now."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TextIO

from irontree.app import App
from irontree.cli.blocks import one_line, printable
from irontree.cli.console import Console, show_markdown
from irontree.cli.context import OK, Context
from irontree.domain.budgets import EXAMPLES, amount_of
from irontree.domain.halt import RULES, VALUES, Choice, Need
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused, ApprovalRefused
from irontree.services.answers.answers import Answer
from irontree.services.proposals.approval import approval_text, publication_order
from irontree.services.proposals.proposal import Proposal
from irontree.services.questions.questions import Question

# --- The keyboard of somebody who is asked


def forget_keys(keys: TextIO) -> None:
    """Drop what was typed before a question was shown: it cannot be meant as its answer."""
    if keys.isatty():
        termios.tcflush(keys, termios.TCIFLUSH)


# --- Have a person's word for what would be done


YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})
WAIT_SECONDS: Final = 10
"""How long what was approved waits for another process to let go of the driver lock."""


def ask_for_approval(
    context: Context,
    app: App,
    wanted: Proposal,
    *,
    loop_mode: bool,
    meanwhile: Callable[[], None] = lambda: None,
    command: str = "",
) -> None:
    """Return once a person has approved exactly this; raises ApprovalRefused if nobody does.

    *meanwhile* is called once somebody is reading. *command* approves it without a terminal, where that needs more
    than `--approve` in addition to what was typed.
    """
    given = context.options.approve
    if wanted.approved and given is None:
        context.console.write(f"{wanted.approved_in_words}; going on with it.\n")
        return
    if given is not None:
        wanted.require_named(given)
    asked_here = given is None and sys.stdin.isatty()
    text = approval_text(app, wanted, loop_mode=loop_mode, answer="yes" if asked_here else "")
    show_markdown(context.console, text)
    wanted.require_clear()
    if given is None:
        if not asked_here:
            raise ApprovalRefused(
                f"{wanted.what} is not approved, and nobody is here to ask",
                remedy=f"look at the plan above, then {command or f'add --approve {wanted.name}'}",
            )
        meanwhile()
        _ask(context.console, loop_mode=loop_mode)


def _ask(console: Console, *, loop_mode: bool) -> None:
    prompt = "Approve and start the loop? [yes/no] " if loop_mode else "Approve and publish? [yes/no] "
    if not _says_yes(console, prompt):
        raise ApprovalRefused("not approved; nothing was published")


def show_plan(context: Context, app: App, wanted: Proposal, data: Mapping[str, object]) -> int:
    """Show what would be approved, and how; *data* is its machine form. The exit code."""
    if context.options.json:
        context.console.dump(data)
        return OK
    answer = f"irontree task {shlex.quote(wanted.intent)} --approve {wanted.name}"
    show_markdown(context.console, approval_text(app, wanted, loop_mode=True, answer=answer))
    return OK


def show_published(context: Context, tasks: Iterable[tuple[int, str, PlanNode]]) -> int:
    """Show the tasks of a stepwise approval, each with its number and what became of it; the exit code."""
    ready = []
    for number, status, node in tasks:
        context.console.write(f"#{number}  {status:10} {one_line(node.title)}\n")
        if not node.depends_on and node.executability == "executable":
            ready.append(number)
    if ready:
        context.console.write(f"Next: irontree run issue-{min(ready)}\n")
    return OK


def _says_yes(console: Console, prompt: str) -> bool:
    """Ask until it is yes or no; the end of the input (Ctrl-D) is no. What was typed before does not count."""
    while True:
        forget_keys(sys.stdin)
        try:
            typed = input(prompt).strip()
        except EOFError:
            return False
        if typed.lower() in YES | NO:
            return typed.lower() in YES
        console.write(f"“{printable(typed)}” is neither yes nor no.\n")


# --- Answers that are given on the command line, before anything asks


_FORM = re.compile(
    r"(?:issue-(?P<number>[1-9]\d*)|loop|(?!issue-\d)(?P<key>[\w-]+))=(?P<choice>[a-z-]+)(?::(?P<rest>.*))?", re.DOTALL
)
_EXAMPLE: Final[dict[Need, str]] = {"count": "2", "amount": "5 USD", "revision": "REVISION", "note": "NOTE"}


def fits(need: Need, text: str) -> bool:
    """Whether *text* is how what a choice needs is written."""
    return amount_of(text) is not None if need == "amount" else bool(VALUES[need].fullmatch(text))


@dataclass(frozen=True, slots=True)
class Prepared:
    """One prepared answer, for the issue with that `number` or task `key`; without both, for the loop itself."""

    text: str
    number: int | None
    key: str
    answer: Answer
    """What is answered, in nobody's name yet."""

    def answers(self, question: Question) -> bool:
        """Whether it is meant for this question."""
        names = [choice.name for choice in question.rule.choices]
        meant = question.task_key == self.key if self.key else question.issue_number == self.number
        return meant and self.answer.choice in names

    def by(self, name: str, question: Question) -> Answer:
        """The answer in that person's name."""
        return replace(self.answer, by=name, question=question.key)


def prepare(texts: Iterable[str]) -> tuple[Prepared, ...]:
    """Read all `--answer` options; raises AnswerRefused for the first that could never be an answer."""
    return tuple(_prepared(text) for text in texts)


def option_for(question: Question, choice: Choice) -> str:
    """The option that makes this choice: `--answer 'issue-7=send-back:NOTE'`."""
    example = {"amount": EXAMPLES[question.budget.unit]} if question.budget else {}
    return f"--answer '{_target(question.issue_number)}={_words(choice, example)}'"


def refuse_unknown(prepared: Sequence[Prepared], issues: Mapping[str, int]) -> None:
    """Raise AnswerRefused if one is meant for a task that is not among these: task keys with their issue numbers."""
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
    """The issue numbers of a document's tasks by key: those they have, and what new ones get, one after another."""
    after = itertools.count(1 + max((state.issue_number for state in states.values()), default=0))
    order = (node.task_key for node in publication_order(nodes))
    return {key: states[key].issue_number if key in states else next(after) for key in order}


def _prepared(text: str) -> Prepared:
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise AnswerRefused(
            f"--answer {text!r} is not understood", remedy="write it like 'issue-7=accept:note' or 'loop=extend:20'"
        )
    number, key = int(match["number"]) if match["number"] else None, match["key"] or ""
    choice = _choice(text, match["choice"], for_loop=number is None and not key)
    answer = _filled(text, key or _target(number), choice, (match["rest"] or "").strip())
    return Prepared(text, number, key, answer)


def _filled(text: str, target: str, choice: Choice, rest: str) -> Answer:
    """The choice with what it needs, and a note, taken from *rest*, which stands behind it in *text*."""
    needed = next((need for need in choice.needs if need != "note"), None)
    if needed is None:
        if choice.needs and not rest:
            raise _incomplete(text, target, choice, "note")
        return Answer(choice.name, by="", note=rest)
    value, _, note = rest.partition(":")
    if choice.name == "extend" and amount_of(value):
        return Answer(choice.name, by="", amount=value.strip(), note=note)
    if not VALUES[needed].fullmatch(value.lower()):
        raise _incomplete(text, target, choice, needed)
    if needed == "count":
        return Answer(choice.name, by="", count=int(value), note=note)
    return Answer(choice.name, by="", revision=value.lower(), note=note)


def _incomplete(text: str, target: str, choice: Choice, need: Need) -> AnswerRefused:
    example = f"{target}={_words(choice)}"
    if choice.name == "extend":
        return AnswerRefused(
            f"--answer {text!r} needs a count from 1 to 50, or an amount with its unit",
            remedy=f"for transitions {example}; for what agents may spend loop=extend:'{EXAMPLES['money']}'",
        )
    return AnswerRefused(f"--answer {text!r} needs a {need}", remedy=f"for example {example}")


def _target(number: int | None) -> str:
    return "loop" if number is None else f"issue-{number}"


def _words(choice: Choice, example: Mapping[str, str] = MappingProxyType({})) -> str:
    return ":".join((choice.name, *(example.get(need, _EXAMPLE[need]) for need in choice.needs)))


def _choice(text: str, name: str, *, for_loop: bool) -> Choice:
    asked_of = "loop" if for_loop else "issue"
    known = {choice.name: choice for rule in RULES if rule.asked_of == asked_of for choice in rule.choices}
    if name not in known:
        raise AnswerRefused(
            f"--answer {text!r}: there is no answer “{name}”", remedy=f"one of {', '.join(sorted(known))}"
        )
    return known[name]
