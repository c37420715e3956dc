"""What the follower shows and hears: a person's keys become one legal answer; other people's words do no harm."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from irontree.cli.follow import PlainScreen, RichScreen
from irontree.cli.looking import Look, show_text
from irontree.domain.halt import AGENT_BUDGET, RULE
from irontree.domain.text import inert
from irontree.flows.gate import make_form, with_page
from irontree.flows.runs.forms import FormQuestion as Form
from irontree.services.questions.pages import CHOICES
from irontree.services.questions.questions import Question

ROOT = Path(__file__).resolve().parents[3]
LOOP = "2026-04-22-1432-a3f8b2"
URL = "http://127.0.0.1:4280/runs/flow-run/1"
HOSTILE = "\x1b[2J\x1b]0;owned\x07**bold**"


def question(reason: str) -> Question:
    return Question(RULE[reason], "issue-7-3", issue_number=7, task_key="greeting", sequence=3, loop_id=LOOP)


def asked(question: Question, description: str = "# Accept #7?") -> Form:
    labels = [choice.label for choice in question.rule.choices if not choice.special]
    form = make_form("Decide", labels, question=question.key, revision="c8b7d960")
    return Form(uuid.uuid4(), "issue-7-3", description, form.model_json_schema())


class Output(io.StringIO):
    """What is shown; a prompt in it is answered by the next of *hands*, as soon as it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.hands: list[Callable[[], None]] = []

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.endswith(": ") and self.hands:
            self.hands.pop(0)()
        return written


class Keyboard:
    """A terminal's other end."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        self.keys = os.fdopen(slave, "r", encoding="utf-8")

    def type(self, *lines: str) -> None:
        os.write(self._master, "".join(f"{line}\n" for line in lines).encode())

    def hang_up(self) -> None:
        os.write(self._master, b"\x04")

    def close(self) -> None:
        self.keys.close()
        os.close(self._master)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    made = Keyboard()
    yield made
    made.close()


@pytest.fixture
def output() -> Output:
    return Output()


@pytest.fixture
def ask(keyboard, output):
    """Ask somebody who types these lines, one at each prompt."""
    screen = RichScreen("Ada", console=Console(file=output, width=100, force_terminal=False), keys=keyboard.keys)

    def ask(reason: str, *lines: str, still_open=lambda: True, description: str = "# Accept #7?"):
        output.hands += [partial(keyboard.type, line) for line in lines]
        about = question(reason)
        return screen.ask(about, asked(about, description), URL, still_open)

    return ask


@pytest.mark.parametrize("typed", ["1", "accept", " accept "])
def test_a_choice_is_made_by_its_number_or_its_word(ask, output, typed):
    answer = ask("pending_acceptance", typed, "")
    assert (answer.choice, answer.by, answer.note, answer.question) == ("accept", "Ada", "", "issue-7-3")
    assert "2  reject: send back with a note" in output.getvalue()
    assert URL in output.getvalue()


def test_a_link_is_shown_with_its_address(ask, output):
    """Not every terminal can follow a link that is hidden behind its words."""
    ask("pending_acceptance", "1", "", description=with_page("http://127.0.0.1:4280/page", "# Accept #7?"))
    assert "http://127.0.0.1:4280/page" in output.getvalue()


def test_the_choices_are_shown_once(ask, output):
    parts = (ROOT / "templates" / "layouts" / "parts.md.j2").read_text(encoding="utf-8")
    assert f"\n## {CHOICES}\n" in parts
    ask("pending_acceptance", "1", "", description=f"# Accept #7?\n\n## {CHOICES}\n\n- accept: accept this commit\n")
    assert output.getvalue().count("accept: accept this commit") == 1


def test_before_a_choice_everything_with_a_key_may_be_looked_at(keyboard, output):
    looks = (
        Look("d", "The change", partial(show_text, title="The change", text="`+ hello`")),
        Look("t", "try it", print),
    )
    screen = RichScreen("Ada", lambda _: looks, Console(file=output, width=100, force_terminal=False), keyboard.keys)
    about = question("pending_acceptance")
    output.hands += [partial(keyboard.type, line) for line in ("d", "1", "")]
    answer = screen.ask(about, asked(about), URL, lambda: True)
    assert answer is not None
    assert answer.choice == "accept"
    assert "d The change · t try it" in output.getvalue()
    assert "+ hello" in output.getvalue()


def test_an_address_in_the_frame_can_be_copied(output):
    show_text(Console(file=output, width=100, force_terminal=True), "Look", f"- see {inert('http://localhost:3000/x')}")
    assert "http://localhost:3000/x" in output.getvalue()
    assert "\u200b" not in output.getvalue()


def test_what_is_no_choice_is_said_and_asked_again(ask, output):
    assert ask("pending_acceptance", "yes", "9", "1", "").choice == "accept"
    assert "“yes” is none of them" in output.getvalue()
    assert "“9” is none of them" in output.getvalue()


@pytest.mark.parametrize("typed", ["reject: make it longer", "send-back: make it longer", "2:make it longer"])
def test_a_note_may_be_typed_behind_its_choice(ask, typed):
    answer = ask("pending_acceptance", typed)
    assert (answer.choice, answer.note) == ("send-back", "make it longer")


def test_what_was_typed_before_the_question_was_there_is_no_answer_to_it(ask, keyboard):
    keyboard.type("accept", "")
    assert ask("pending_acceptance", "send-back", "make it longer").choice == "send-back"


def test_a_note_that_is_needed_is_asked_for_until_there_is_one(ask, output):
    answer = ask("pending_acceptance", "send-back", "", "  ", "make it longer")
    assert (answer.choice, answer.note) == ("send-back", "make it longer")
    assert output.getvalue().count("A note is needed") == 2


def test_a_number_that_is_needed_is_asked_for_until_it_is_one(ask):
    assert ask("fail_terminal", "retry", "many", "51", "3", "").count == 3


def test_an_amount_that_is_needed_is_asked_for_until_it_has_a_unit(keyboard, output):
    screen = RichScreen("Ada", console=Console(file=output, width=100, force_terminal=False), keys=keyboard.keys)
    output.hands += [partial(keyboard.type, line) for line in ("extend", "20", "5 USD", "")]
    spent = replace(question("loop_budget_exhausted"), rule=AGENT_BUDGET)
    assert screen.ask(spent, asked(spent), URL, lambda: True).amount == "5 usd"
    assert "with its unit" in output.getvalue()


def test_what_is_approved_is_what_the_form_shows_and_nobody_types_it(ask):
    assert ask("reapproval_required", "approve", "").revision == "c8b7d960"
    assert ask("pending_acceptance", "accept", "").revision is None


def test_an_answer_from_elsewhere_ends_the_asking(ask, output):
    assert ask("pending_acceptance", still_open=lambda: False) is None
    assert "Answered elsewhere" in output.getvalue()


def test_an_answer_that_came_from_elsewhere_while_the_last_line_was_typed_counts(ask):
    assert ask("pending_acceptance", "1", "", still_open=lambda: False) is None


def test_the_end_of_the_input_answers_nothing(ask, keyboard, output):
    output.hands = [keyboard.hang_up]
    assert ask("pending_acceptance") is None


def test_the_end_of_the_input_in_the_middle_of_an_answer_asks_no_more(ask, keyboard, output):
    output.hands = [partial(keyboard.type, "retry"), keyboard.hang_up]
    assert ask("fail_terminal") is None
    assert "Note" not in output.getvalue()


def test_words_of_others_reach_the_terminal_without_what_moves_it(ask, keyboard, output):
    ask("pending_acceptance", "1", "", description=HOSTILE)
    screen = RichScreen("Ada", console=Console(file=output, width=100), keys=keyboard.keys)
    screen.say(f"#7 {HOSTILE}[bold]: done")
    screen.say(f"{HOSTILE} goes on")
    assert "\x1b" not in output.getvalue()
    assert "\x07" not in output.getvalue()
    assert "[bold]: done" in output.getvalue()


def test_without_anybody_the_question_is_shown_with_the_commands_that_answer_it(output):
    screen = PlainScreen(output)
    screen.say(HOSTILE)
    about = question("pending_acceptance")
    assert screen.ask(about, asked(about), URL, lambda: True) is None
    said = output.getvalue()
    assert "\x1b" not in said
    assert "# Accept #7?" in said
    assert f"  irontree resume {LOOP} --answer 'issue-7=reject:NOTE'\n" in said
    assert URL not in said
