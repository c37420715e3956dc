"""Follow a loop on the terminal until it ends: print new events and ask its questions."""

from __future__ import annotations

import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from rich.console import Console
from rich.markup import escape

from irontree.app import App
from irontree.cli.answer import Prepared, fits, option_for
from irontree.cli.console import forget_keys
from irontree.cli.looking import Look, show_text
from irontree.domain import typed
from irontree.domain.budgets import spoken_time
from irontree.domain.decide import Halt
from irontree.domain.halt import Choice, Need
from irontree.domain.loop import ENDED
from irontree.domain.spending import Budget
from irontree.domain.state import TaskState
from irontree.domain.text import printable
from irontree.errors import AnswerRefused, ServerUnavailable
from irontree.services.answers.answers import Answer
from irontree.services.execution.steps import next_step
from irontree.services.loops.choice import next_decision
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import read_loop
from irontree.services.questions.pages import CHOICES
from irontree.services.questions.questions import Question, question_of_loop, questions_beside
from irontree.services.record import World, read_world
from irontree.services.views.history import say_issue_event, say_loop_event
from irontree.services.views.overview import activity, title_of
from irontree.services.views.report import context_of_failure
from irontree.services.views.workflow_run import step_lists

if TYPE_CHECKING:
    from irontree.flows.runs.forms import FormQuestion
    from irontree.flows.runs.runs import RunInfo
    from irontree.flows.serve.session import TerminalSession

KEY_WAIT = 0.3
_PROMPTS: Final[dict[Need, str]] = {
    "count": "How many (1 to 50)",
    "amount": "How much more, with its unit",
    "note": "Note",
}
_WANTED: Final[dict[Need, str]] = {
    "count": "That is no whole number from 1 to 50.",
    "amount": "Say how much, with its unit: 5 USD, 200000 tokens or 2h, whichever is used up.",
    "note": "A note is needed: it tells the next attempt what to change.",
}
"""The message for an input that does not fit."""
StillOpen = Callable[[], bool]
"""`False` once the question was answered elsewhere."""


def _nothing(_: Question) -> Sequence[Look]:
    return ()


class Form(Protocol):
    """What a question looks like: that of a run, or the same without a server."""

    @property
    def description(self) -> str:
        """The text, in Markdown."""

    @property
    def choices(self) -> Collection[str]:
        """The labels of the choices that are offered."""

    @property
    def revision(self) -> str:
        """What it shows to be approved; empty if that is nothing."""


class PlainScreen:
    """Plain lines for a pipe or a log; not interactive."""

    def __init__(self, output: TextIO = sys.stdout, program: str = "irontree") -> None:
        self._output = output
        self._program = program

    def say(self, text: str) -> None:
        """One line, with the time of day (UTC)."""
        self._output.write(f"{time.strftime('%H:%M:%S', time.gmtime())}  {printable(text)}\n")

    def busy(self, text: str) -> None:
        """Do nothing: a log shows what happened, not what is in progress."""

    def close(self) -> None:
        """Nothing to restore."""

    def ask(self, question: Question, asked: Form, url: str, still_open: StillOpen) -> Answer | None:  # noqa: ARG002
        """Show the question and the commands that answer it: no user is here, and its page ends with this command."""
        resume = f"{self._program} resume {question.loop_id}"
        legal = _legal(question, asked)
        ways = "".join(f"  {resume} {option_for(question, choice, asked.revision)}\n" for choice in legal)
        self._output.write(f"\n{asked.description}\n\nNobody is here to answer. Go on with one of:\n{ways}")
        return None


class RichScreen:
    """An interactive terminal."""

    def __init__(
        self,
        person: str,
        looks: Callable[[Question], Sequence[Look]] = _nothing,
        console: Console | None = None,
        keys: TextIO = sys.stdin,
    ) -> None:
        self._person = person
        self._looks = looks
        self._console = console or Console(highlight=False)
        self._keys = keys
        self._status = self._console.status("")
        self._doing, self._since = "", 0.0

    def say(self, text: str) -> None:
        """Print one line above the progress line."""
        number, _, rest = printable(text).partition(" ")
        line = f"[bold cyan]{number}[/] {escape(rest)}" if number.startswith("#") else escape(f"{number} {rest}")
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/]  {line}")

    def busy(self, text: str) -> None:
        """Set the progress line at the bottom, with a spinner and how long that has taken by now."""
        if text != self._doing:
            self._doing, self._since = text, time.monotonic()
        self._status.update(f"{escape(printable(text))} [dim]{spoken_time(int(time.monotonic() - self._since))}[/]")
        self._status.start()

    def close(self) -> None:
        """Restore the terminal."""
        self._status.stop()

    def ask(self, question: Question, asked: Form, url: str, still_open: StillOpen) -> Answer | None:
        """Show the question and wait until it is answered here or elsewhere, whichever comes first."""
        self._status.stop()
        show_text(self._console, "Your decision", _without_choices(asked))
        if url:
            self._console.print(f"Answer here, or in the browser: [link={url}]{url}[/link]")
        legal = _legal(question, asked)
        forget_keys(self._keys)
        if (chosen := self._choose(legal, self._looks(question), still_open)) is None:
            return None
        choice, note = chosen
        given: dict[Need, str] = {}
        for need in choice.needs:
            if need in ("note", "revision"):  # the one comes last, the other is on the screen
                continue
            value = self._needed(need, still_open)
            if value is None:
                return None
            given[need] = value
        note = note or self._note(still_open, needed="note" in choice.needs)
        if note is None or not still_open():
            return None
        return Answer(
            choice.name,
            self._person,
            note=note,
            count=int(given["count"]) if "count" in given else None,
            revision=(asked.revision or None) if "revision" in choice.needs else None,
            amount=given.get("amount"),
            question=question.key,
        )

    def pick(self, title: str, rows: Sequence[str]) -> int | None:
        """Have one of *rows* chosen by its number; `None` at end of input."""
        self._console.print(escape(printable(title)))
        for number, row in enumerate(rows, start=1):
            self._console.print(f"  [bold]{number}[/]  {escape(printable(row))}")
        numbers = [str(number) for number in range(1, len(rows) + 1)]
        typed = self._read(
            "Which one", "That is no number of them.", lambda line: line.strip() in numbers, lambda: True
        )
        return None if typed is None else int(typed) - 1

    def _choose(
        self, legal: tuple[Choice, ...], looks: Sequence[Look], still_open: StillOpen
    ) -> tuple[Choice, str | None] | None:
        """The choice, with the note if it was typed behind it as for `--answer`: `reject: too short`.

        Before it, whatever has a key may be looked at.
        """
        for number, choice in enumerate(legal, start=1):
            self._console.print(f"  [bold]{number}[/]  {choice.typed}: {choice.label}")
        if looks:
            shown = " · ".join(f"[bold]{look.key}[/] {escape(look.title)}" for look in looks)
            self._console.print(f"  To see more: {shown}")
        while (line := self._line("Your decision (number or word)", still_open)) is not None:
            if chosen := next((look for look in looks if look.key == line.strip()), None):
                chosen.show(self._console)
                continue
            word, _, note = line.partition(":")
            for number, choice in enumerate(legal, start=1):
                if word.strip() in (str(number), choice.name, choice.typed):
                    return choice, note.strip() or None
            self._console.print(f"[yellow]“{escape(line)}” is none of them.[/]")
        return None

    def _needed(self, need: Need, still_open: StillOpen) -> str | None:
        """Ask for a number or an amount until the input is valid."""
        found = self._read(_PROMPTS[need], _WANTED[need], lambda typed: fits(need, typed.strip().lower()), still_open)
        return found and found.strip().lower()

    def _note(self, still_open: StillOpen, *, needed: bool) -> str | None:
        prompt = _PROMPTS["note"] if needed else "Note (may be empty)"
        return self._read(prompt, _WANTED["note"], lambda typed: bool(typed.strip()) or not needed, still_open)

    def _read(self, prompt: str, wanted: str, is_fit: Callable[[str], bool], still_open: StillOpen) -> str | None:
        """The first line that fits; *wanted* is said after each other one."""
        while (line := self._line(prompt, still_open)) is not None and not is_fit(line):
            self._console.print(f"[yellow]{wanted}[/]")
        return line

    def _line(self, prompt: str, still_open: StillOpen) -> str | None:
        """A line from the keyboard; `None` at end of input, or if the question was answered elsewhere first."""
        self._console.print(f"{escape(prompt)}: ", end="")
        while True:
            if select.select([self._keys], [], [], KEY_WAIT)[0]:
                line = self._keys.readline()
                return line.rstrip("\n") if line else None
            if not still_open():
                self._console.print("\n[green]Answered elsewhere: the loop goes on.[/]")
                return None


def _without_choices(asked: Form) -> str:
    """The form's text before its choices, which are listed separately below it."""
    before, found, _ = asked.description.rpartition(f"\n## {CHOICES}\n")
    return before if found else asked.description


def _legal(question: Question, asked: Form) -> tuple[Choice, ...]:
    """The choices that the form offers."""
    return tuple(choice for choice in question.rule.choices if choice.label in asked.choices)


LOOK_EVERY = 0.15
LOOK_AFTER_EVERY = 3.0
CRASHES = 3
"""How often the loop's process is restarted before its crashes are reported as an error."""


StreamKey = tuple[int | str, str]
"""An issue's number and approved revision, for a task that was approved again begins a new stream; or a loop's id."""
NewLine = tuple[str, str, StreamKey, int]
"""The time of an event that was not shown yet, its words, its stream and its sequence."""


@dataclass
class ShownSoFar:
    """How far the log has been shown: the last sequence per stream."""

    streams: Counter[StreamKey]
    warned: set[Budget] = field(default_factory=set)
    """Budgets of which four fifths are known to be spent, without their figures."""
    listed: tuple[str, ...] = ()
    """The lists of steps that were shown last, for `progress: verbose`."""
    asking: tuple[str, ...] = ()
    """Keys of the questions that are open while other work of the loop goes on."""

    @classmethod
    def all_of(cls, app: App, loop_id: str) -> ShownSoFar:
        """Treat everything that is in the log now as shown."""
        world = read_world(app)
        streams = Counter({_stream(state): state.sequence for state in world.states.values()})
        streams[loop_id, ""] = read_loop(app, loop_id).sequence
        warned = {_bare(budget) for budget in read_funds(app, world).shown() if budget.warns}
        return cls(streams, warned)


def _bare(budget: Budget) -> Budget:
    return budget._replace(limit=0, spent=0, unread=0, unknown="")


def _stream(state: TaskState) -> StreamKey:
    return state.issue_number, state.approved_revision


def _below(lines: Iterable[str], mark: str = "") -> str:
    """Further lines of a message, indented as far as its words are."""
    return "".join(f"\n            {mark}{line}" for line in lines)


@dataclass
class Follower:
    """Follows one loop; `prepared` are answers given beforehand, used up in order. Times are in seconds."""

    app: App
    session: TerminalSession
    loop_id: str
    screen: PlainScreen | RichScreen
    prepared: list[Prepared]
    person: str
    shown: ShownSoFar
    shoot: Callable[[World], bool] | None = None
    look_every: float = LOOK_EVERY
    look_after_every: float = LOOK_AFTER_EVERY
    _answered: set[str] = field(default_factory=set)
    _stopping: bool = False
    _left: bool = False
    _crashes: int = 0
    _look_after_at: float = 0
    _has_looked_after: bool = False

    def follow(self) -> str:
        """Follow until the loop ends or waits for a user who is not here; returns its status once all is shown.

        It is `stopped` by Ctrl-C, `left` by Ctrl-C at a question, which stays open, or `called off` in the browser.
        Where this terminal serves the flows, the first Ctrl-C lets them finish their step; other ones propagate.
        """
        self._look_after_at = time.monotonic() + self.look_after_every
        try:
            while True:
                try:
                    if ended := self._look():
                        return ended
                    time.sleep(self.look_every)
                except KeyboardInterrupt:
                    if self._stopping or not self.session.serves:
                        raise
                    self._stopping = True
                    self.session.finish()
                    self.screen.say("Finishing the present step. Ctrl-C again stops it at once; its work is kept.")
        finally:
            self.catch_up()  # the log may have grown after it was shown, until that end was found

    def _look(self) -> str | None:
        """Show what is new, answer open questions, check the runs; returns how the loop ended, if it did."""
        question = self._question()  # first: what led to it is shown before it is asked
        self.catch_up()
        if self.shoot and self.shoot(read_world(self.app)):
            return "shot"
        status = read_loop(self.app, self.loop_id).entity.status
        if status in ENDED:
            return status
        if question and not self._stopping and not self._answer(question):
            return "left" if self._left else "halted"
        if time.monotonic() < self._look_after_at:
            return None
        self._look_after_at, self._has_looked_after = time.monotonic() + self.look_after_every, True
        return self._look_after()

    def catch_up(self) -> None:
        """Print what is new in the log, in the order of recording; the loop is read first, for its end comes last."""
        of_loop = list(self._loop_lines())
        world = read_world(self.app)
        lines = [*self._issue_lines(world), *of_loop]
        for _, text, stream, sequence in sorted(lines, key=lambda line: line[0]):
            self.screen.say(text)
            self.shown.streams[stream] = max(sequence, self.shown.streams[stream])
        loop = read_loop(self.app, self.loop_id)
        if lines and not self._has_looked_after:
            self._look_after_at = 0  # to ask the server takes a second for the first time: best while an agent works
        if lines:
            self._list_steps(world, loop.keys)
            self._warn_of_budgets(world)
        beside = questions_beside(world, loop) if loop.entity.status == "running" else ()
        self._say_who_asks(world, beside)
        waiting = f"; {len(beside)} waiting for you" if beside else ""
        self.screen.busy(f"{activity(world, loop.keys)}{waiting}")

    def _list_steps(self, world: World, keys: Iterable[str]) -> None:
        """Say where all steps of a workflow file are, if it asks for that and one has moved."""
        lists = tuple(step_lists(self.app, world, keys))
        for name, *steps in (text.splitlines() for text in lists if text not in self.shown.listed):
            self.screen.say(f"{name}{_below(steps)}")
        self.shown.listed = lists

    def _say_who_asks(self, world: World, beside: tuple[Question, ...]) -> None:
        """Say once of each question that other work goes on meanwhile; here it is asked when the loop halts (R17)."""
        new = [question for question in beside if question.key not in self.shown.asking]
        if new and isinstance(next_decision(self.app, self.loop_id), Halt):
            return  # it is asked at once
        self.shown.asking = tuple(question.key for question in beside)
        for question in new:
            title, words = title_of(world, question.task_key or ""), question.rule.title
            self.screen.say(
                f"#{question.number} {title}: {words[0].lower()}{words[1:]}, and other work goes on. "
                "You are asked here once nothing else is left; `irontree status` says how to answer now"
            )

    def _warn_of_budgets(self, world: World) -> None:
        """Warn once per budget when four fifths of it are spent; a review in progress has no figures yet."""
        for budget in read_funds(self.app, world).shown():
            if budget.warns and not budget.unread and _bare(budget) not in self.shown.warned:
                self.shown.warned.add(_bare(budget))
                self.screen.say(f"budget: {budget.words}")

    def _issue_lines(self, world: World) -> Iterator[NewLine]:
        for state in sorted(world.states.values(), key=lambda state: state.issue_number):
            stream = _stream(state)
            seen = self.shown.streams[stream]
            if state.sequence <= seen:
                continue
            name = f"#{state.issue_number} {title_of(world, state.task_key)}"
            for record in self.app.log.read(state.issue_number).records:
                if seen < record.event.sequence <= state.sequence:  # the log may have grown since the world was read
                    text = f"{name}: {say_issue_event(record)}{_below(context_of_failure(self.app, record), '| ')}"
                    yield record.told.time, text, stream, record.event.sequence

    def _loop_lines(self) -> Iterator[NewLine]:
        stream = (self.loop_id, "")
        for record in self.app.loops.read(self.loop_id).records:
            if record.event.sequence > self.shown.streams[stream]:
                yield record.told.time, say_loop_event(record), stream, record.event.sequence

    def _answer(self, question: Question) -> bool:
        """Answer the open question; `False` if it cannot be answered here."""
        asked = self.session.runs.asked(question)
        if asked is None or asked.key in self._answered:
            return True
        try:
            answer = self._prepared_answer(question) or self._ask(question, asked)
            if answer is None and question.timer and not self._left:
                self._answered.add(asked.key)  # a timer will answer it
                return True
            if answer is None:
                return not self._left and self._question() != question
            self._give(question, answer, asked)
        except AnswerRefused as error:
            self.screen.say(f"{error.message}. {error.remedy or ''}")
        return True

    def _ask(self, question: Question, asked: FormQuestion) -> Answer | None:
        try:
            url = self.session.runs.url(asked.run_id)
            return self.screen.ask(question, asked, url, lambda: self._question() == question)
        except KeyboardInterrupt:
            self._left = True
            return None

    def _give(self, question: Question, answer: Answer, asked: FormQuestion) -> None:
        self.session.runs.answer(question, answer, asked)
        self._answered.add(asked.key)
        note = f" (“{answer.note}”)" if answer.note else ""
        self.screen.say(f"Answered: {question.typed(answer.choice)}{note}")

    def _question(self) -> Question | None:
        entity = read_loop(self.app, self.loop_id).entity
        if entity.status != "halted":
            return None
        world = read_world(self.app)
        state = world.states.get(entity.halt_at_task_key or "")
        if state is None:
            return question_of_loop(self.app, self.loop_id)
        found = next_step(self.app, state.issue_number, self.loop_id)
        return found if isinstance(found, Question) else None

    def _prepared_answer(self, question: Question) -> Answer | None:
        for index, prepared in enumerate(self.prepared):
            if prepared.answers(question):
                return self.prepared.pop(index).by(self.person, question)
        return None

    def _look_after(self) -> str | None:
        """Return how it ended if the user stopped or cancelled what drives the loop; otherwise keep it going.

        Raises ServerUnavailable where that would not help. A loop that ended meanwhile is left to the next look.
        """
        if not self.session.alive() and read_loop(self.app, self.loop_id).is_open:
            ended = self.session.how_it_ended()
            raise ServerUnavailable(f"the process that serves the flows {ended}", remedy=self._go_on_hint())
        if self._stopping:
            return "stopped" if self.session.runs.at_rest() and read_loop(self.app, self.loop_id).is_open else None
        run = self.session.runs.run_of_loop(self.loop_id)
        if run and run.cancelled:
            return "called off"
        running = read_loop(self.app, self.loop_id).entity.status == "running"
        if running and run and run.final:
            return self._look_after_end(run)
        if run is None or not running:
            self.session.runs.set_going(self.loop_id)
        return None

    def _look_after_end(self, run: RunInfo) -> str | None:
        """As `_look_after`, for a loop whose run ended prematurely."""
        if run.state_name == "Stopped":
            return "stopped"
        self._crashes += 1
        if run.state != "CRASHED" or self._crashes > CRASHES:
            raise ServerUnavailable(f"the loop's run ended: {run.state_name}. {run.message}", remedy=self._go_on_hint())
        self.screen.say("The loop's process died; starting it again.")
        self.session.runs.set_going(self.loop_id)
        return None

    def _go_on_hint(self) -> str:
        return f"go on with: {typed.resume(self.loop_id)}"
