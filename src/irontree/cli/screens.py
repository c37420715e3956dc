"""What the follower shows: Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel

from irontree.cli.answering import fits, option_for
from irontree.cli.keyboard import forget_keys
from irontree.cli.text import printable
from irontree.domain.halt import Choice, Need
from irontree.flows.gate.questions import Question as Form
from irontree.services.answers import Answer
from irontree.services.questions import Question

LOOK_EVERY = 0.3
_PROMPTS: Final[dict[Need, str]] = {
    "count": "How many (1 to 50)",
    "amount": "How much more, with its unit",
    "revision": "Revision that you approve",
    "note": "Note",
}
_WANTED: Final[dict[Need, str]] = {
    "count": "That is no whole number from 1 to 50.",
    "amount": "Say how much, with its unit: 5 USD, 200000 tokens or 2h, whichever is used up.",
    "revision": "A revision is typed as it is shown: 8 characters, 0 to 9 and a to f, and those behind the hyphens.",
    "note": "A note is needed: it tells the next attempt what to change.",
}
"""What is said to what does not fit."""
CHOICES: Final = "\n## Your Decision\n"
"""The heading of the choices in the text of a form (`templates/layouts/parts.md`)."""
Asking = Callable[[], bool]


class PlainScreen:
    """Lines for a pipe or a log; nobody can be asked."""

    def __init__(self, output: TextIO = sys.stdout, program: str = "irontree") -> None:
        self._output = output
        self._program = program

    def say(self, text: str) -> None:
        """One line, with the time of day (UTC)."""
        self._output.write(f"{time.strftime('%H:%M:%S', time.gmtime())}  {printable(text)}\n")
        self._output.flush()

    def busy(self, text: str) -> None:
        """Nothing: a log shows what happened, not what goes on."""

    def close(self) -> None:
        """Nothing to restore."""

    def ask(self, question: Question, asked: Form, url: str, still_open: Asking) -> Answer | None:  # noqa: ARG002
        """Show the question and how it can be answered; there is nobody here, and the page ends with this command."""
        resume = f"{self._program} task resume {question.loop_id}"
        legal = _legal(question, asked)
        ways = "".join(f"  {resume} {option_for(question, choice)}\n" for choice in legal)
        self._output.write(f"\n{asked.description}\n\nNobody is here to answer. Go on with one of:\n{ways}")
        self._output.flush()
        return None


class RichScreen:
    """A terminal with a person in front of it."""

    def __init__(self, person: str, console: Console | None = None, keys: TextIO = sys.stdin) -> None:
        self._person = person
        self._console = console or Console(highlight=False)
        self._keys = keys
        self._status = self._console.status("")

    def say(self, text: str) -> None:
        """One line above the one that tells what goes on."""
        number, _, rest = printable(text).partition(" ")
        line = f"[bold cyan]{number}[/] {escape(rest)}" if number.startswith("#") else escape(f"{number} {rest}")
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/]  {line}")

    def busy(self, text: str) -> None:
        """The last line, with a spinner."""
        self._status.update(escape(printable(text)))
        self._status.start()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._status.stop()

    def ask(self, question: Question, asked: Form, url: str, still_open: Asking) -> Answer | None:
        """Show the question, and wait for an answer here or for one from elsewhere, whichever comes first."""
        self._status.stop()
        self._console.print(Panel(Markdown(_without_choices(asked)), title="Your decision", border_style="yellow"))
        self._console.print(f"Answer here, or in the browser: [link={url}]{url}[/link]")
        legal = _legal(question, asked)
        forget_keys(self._keys)
        choice = self._choose(legal, still_open)
        if choice is None:
            return None
        given: dict[Need, str] = {}
        for need in choice.needs:
            if need == "note":
                continue
            value = self._needed(need, still_open)
            if value is None:
                return None
            given[need] = value
        note = self._note(still_open, needed="note" in choice.needs)
        if note is None or not still_open():
            return None
        count, revision = given.get("count"), given.get("revision")
        return Answer(
            choice.name,
            self._person,
            note=note,
            count=int(count) if count else None,
            revision=revision,
            amount=given.get("amount"),
            question=question.key,
        )

    def _choose(self, legal: tuple[Choice, ...], still_open: Asking) -> Choice | None:
        for number, choice in enumerate(legal, start=1):
            self._console.print(f"  [bold]{number}[/]  {choice.name}: {choice.label}")
        while (line := self._line("Your decision (number or word)", still_open)) is not None:
            for number, choice in enumerate(legal, start=1):
                if line.strip() in (str(number), choice.name):
                    return choice
            self._console.print(f"[yellow]“{escape(line)}” is none of them.[/]")
        return None

    def _needed(self, need: Need, still_open: Asking) -> str | None:
        """A number, an amount or a revision, asked for until it is one."""
        while (line := self._line(_PROMPTS[need], still_open)) is not None:
            if fits(need, line.strip().lower()):
                return line.strip().lower()
            self._console.print(f"[yellow]{_WANTED[need]}[/]")
        return None

    def _note(self, still_open: Asking, *, needed: bool) -> str | None:
        prompt = _PROMPTS["note"] if needed else "Note (may be empty)"
        while (line := self._line(prompt, still_open)) is not None:
            if line.strip() or not needed:
                return line
            self._console.print(f"[yellow]{_WANTED['note']}[/]")
        return None

    def _line(self, prompt: str, still_open: Asking) -> str | None:
        """A line from the keyboard; None if the question was answered elsewhere first, or nobody is there."""
        self._console.print(f"{escape(prompt)}: ", end="")
        while True:
            ready, _, _ = select.select([self._keys], [], [], LOOK_EVERY)
            if ready:
                line = self._keys.readline()
                return line.rstrip("\n") if line else None
            if not still_open():
                self._console.print("\n[green]Answered elsewhere.[/]")
                return None


def _without_choices(asked: Form) -> str:
    """The form's text up to its choices, which are listed below it to be typed."""
    text = printable(asked.description)
    before, found, _ = text.rpartition(CHOICES)
    return before if found else text


def _legal(question: Question, asked: Form) -> tuple[Choice, ...]:
    """The choices that the form offers."""
    return tuple(choice for choice in question.rule.choices if choice.label in asked.choices)
