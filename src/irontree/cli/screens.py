"""What the follower shows: Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel

from irontree.cli.text import printable
from irontree.domain.halt import Choice, choices
from irontree.flows.questions import Question as Asked
from irontree.services.answers import Answer
from irontree.services.steps import Question

LOOK_EVERY = 0.3
Asking = Callable[[], bool]


class PlainScreen:
    """Lines for a pipe or a log; nobody can be asked."""

    def __init__(self, output: TextIO = sys.stdout) -> None:
        self._output = output

    def say(self, text: str) -> None:
        """One line, with the time of day (UTC)."""
        self._output.write(f"{time.strftime('%H:%M:%S', time.gmtime())}  {printable(text)}\n")
        self._output.flush()

    def busy(self, text: str) -> None:
        """Nothing: a log shows what happened, not what goes on."""

    def close(self) -> None:
        """Nothing to restore."""

    def ask(self, question: Question, asked: Asked, url: str, still_open: Asking) -> Answer | None:  # noqa: ARG002
        """Show the question and where it can be answered; there is nobody here to answer it."""
        self._output.write(f"\n{asked.description}\n\nAnswer in the browser: {url}\n")
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
        number, _, rest = text.partition(" ")
        line = f"[bold cyan]{number}[/] {escape(rest)}" if number.startswith("#") else escape(text)
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/]  {line}")

    def busy(self, text: str) -> None:
        """The last line, with a spinner."""
        self._status.update(escape(text))
        self._status.start()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._status.stop()

    def ask(self, question: Question, asked: Asked, url: str, still_open: Asking) -> Answer | None:
        """Show the question, and wait for an answer here or for one from elsewhere, whichever comes first."""
        self._status.stop()
        self._console.print(Panel(Markdown(asked.description), title="Your decision", border_style="yellow"))
        self._console.print(f"Answer here, or in the browser: [link={url}]{url}[/link]")
        legal = choices(question.rule, in_loop=question.loop_id is not None)
        choice = self._choose(legal, still_open)
        if choice is None:
            return None
        count = self._count(still_open) if "count" in choice.needs else None
        revision = self._line("Revision that you approve", still_open) if "revision" in choice.needs else None
        note = self._line("Note" if "note" in choice.needs else "Note (may be empty)", still_open)
        if note is None or not still_open():
            return None
        return Answer(choice.name, self._person, note=note, count=count, revision=revision, question=question.key)

    def _choose(self, legal: tuple[Choice, ...], still_open: Asking) -> Choice | None:
        for number, choice in enumerate(legal, start=1):
            self._console.print(f"  [bold]{number}[/]  {choice.name}: {choice.label}")
        while (line := self._line("Your decision (number or word)", still_open)) is not None:
            for number, choice in enumerate(legal, start=1):
                if line.strip() in (str(number), choice.name):
                    return choice
            self._console.print(f"[yellow]“{escape(line)}” is none of them.[/]")
        return None

    def _count(self, still_open: Asking) -> int | None:
        while (line := self._line("How many (1 to 50)", still_open)) is not None:
            if line.strip().isdecimal() and 1 <= int(line) <= 50:  # noqa: PLR2004  (the form's own limit)
                return int(line)
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
                self._console.print("\n[green]Answered in the browser.[/]")
                return None
