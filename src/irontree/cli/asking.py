"""`irontree answer [ISSUE [CHOICE]]`: show what waits, ask it as a followed loop does, and record the answer."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from irontree.app import App
from irontree.cli.answer import read_choice
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.decisions import ENDS, GOES_ON, skip_issue, stop_loop, take_answer, tell_loop
from irontree.cli.inbox import everything_waiting, question_block, signing_in
from irontree.cli.output import TextLines, listing
from irontree.cli.parser import JSON, OK, REFUSED, UsageError, argument, wait
from irontree.domain import typed
from irontree.errors import AnswerRefused
from irontree.flows.server.connection import state_folder
from irontree.services.answers.answers import Answer
from irontree.services.loops.loop import open_loops, read_loops
from irontree.services.questions.commands import question_json
from irontree.services.questions.listing import asked_about, list_questions, offered
from irontree.services.questions.pages import parts_of, question_text
from irontree.services.questions.questions import Question, question_about, question_of_loop
from irontree.services.record import read_world

if TYPE_CHECKING:
    from irontree.cli.follow import RichScreen


PATIENCE: Final = 3600.0
"""Seconds that an answer from the keyboard waits for the step at work, unless `--wait` says how long."""


@dataclass(frozen=True, slots=True)
class OfferedForm:
    """The form of a question, without a run that shows it."""

    description: str
    choices: Collection[str]
    revision: str


def run(context: Context) -> int:
    """Take the answer that is given; else ask at a terminal, or say what waits and how to answer (exit code 1)."""
    options = context.options
    app = context.open()
    waiting, unknown = _named(app, options.asked) if options.asked else everything_waiting(app)
    if options.choice:
        [asked] = waiting if len(waiting) == 1 else _several(options.asked, waiting)
        return _take(context, app, asked, _made(asked, options.asked, " ".join(options.choice)))
    if not waiting:
        nothing = ("Nothing waits for you here.",)
        context.console.show(
            lambda: as_json(waiting, unknown), [TextLines(nothing), *listing(filter(None, (unknown,)))]
        )
        return OK
    shown = signing_in(waiting, context.console.out, state_folder())
    if not context.console.json and context.console.draws and sys.stdin.isatty():
        from irontree.cli.follow import RichScreen  # only where there is a terminal: these import Rich
        from irontree.cli.looking import looks_at

        return ask(context, app, shown, RichScreen(app.origin.actor, partial(looks_at, app)))
    blocks = [*map(question_block, shown), *listing(filter(None, (unknown,)), "faint")]
    context.console.show(lambda: as_json(waiting, unknown), blocks)
    return REFUSED


def as_json(waiting: Sequence[Question], unknown: str) -> dict[str, object]:
    """What waits, with the commands that answer it; and why there may be more."""
    return {"questions": [question_json(asked) for asked in waiting], "approvals_unknown": unknown or None}


def _named(app: App, text: str) -> tuple[tuple[Question, ...], str]:
    """What this issue asks, or this loop and its issues. Raises AnswerRefused if that is nothing."""
    world, loops = read_world(app), read_loops(app)[0]
    if text in app.loops.ids():
        found = tuple(asked for asked in list_questions(app, world, loops) if asked.loop_id == text)
        if not found:
            raise AnswerRefused(f"loop {text} asks nothing", remedy=f"`{typed.loop(text)}` shows its state")
        return found, ""
    state = find_issue(world, text)
    asked = asked_about(app, world, open_loops(app), state)
    if asked is None:
        raise AnswerRefused(
            f"issue-{state.issue_number} has no open question: it is {state.phase}",
            remedy=f"`irontree show issue-{state.issue_number}` shows what happened",
        )
    return (asked,), ""


def _several(text: str, waiting: Sequence[Question]) -> tuple[Question]:
    """The loop's own question, if that is what a choice is about; else raise UsageError naming the issues that ask."""
    own = [asked for asked in waiting if asked.issue_number is None]
    if not own:
        issues = ", ".join(f"#{asked.issue_number}" for asked in waiting)
        raise UsageError(f"several issues of {text} ask something: name one of {issues}")
    return (own[0],)


def _made(asked: Question, text: str, words: str) -> Answer:
    return read_choice(words, asked, begin=f"irontree answer {text} ")


def ask(context: Context, app: App, waiting: Sequence[Question], screen: RichScreen) -> int:
    """Show the question and take what is typed; where several wait, the user says which."""
    at = 0 if len(waiting) == 1 else screen.pick(f"{len(waiting)} wait for you:", [_row(one) for one in waiting])
    if at is None:
        return REFUSED
    asked = waiting[at]
    if asked.damaged or asked.kind == "document":  # a command comes first, or is the answer
        context.console.show(dict, [question_block(asked)])
        return REFUSED
    choices = offered(app, read_world(app), asked) if asked.issue_number else asked.choices()
    lead = parts_of(question_text(app, asked)).lead
    form = OfferedForm(lead, {choice.label for choice in choices}, asked.revision or "")
    answer = screen.ask(asked, form, asked.form_url or "", lambda: _is_open(app, asked))
    if answer is None:
        return OK if not _is_open(app, asked) else REFUSED
    if context.options.wait == 0:  # what was typed is not to be lost to a step that is at work
        context.options.wait = PATIENCE
    if busy := app.driver.holder():
        context.console.note(f"waiting until this has ended: {busy.what}")
    return _take(context, app, asked, answer)


def _row(asked: Question) -> str:
    return f"{asked.about}: {asked.words}"


def _is_open(app: App, asked: Question) -> bool:
    """Whether the log still asks this."""
    if asked.issue_number is None:
        now = question_of_loop(app, asked.loop_id or "")
    else:
        world = read_world(app)
        state = world.state(asked.issue_number)
        rule = world.halt_of(state)
        now = question_about(state, rule) if rule else None
    return now is not None and now.key == asked.key


def _take(context: Context, app: App, asked: Question, answer: Answer) -> int:
    if asked.issue_number is None:
        return tell_loop(context, app, asked, answer)
    if asked.loop_id and answer.choice == "stop":
        return stop_loop(context, app, asked.loop_id, answer.note)
    if asked.loop_id and answer.choice == "skip":
        return skip_issue(context, app, asked.loop_id, asked.task_key or "", answer.note)
    wanted = ENDS.get(answer.choice, GOES_ON)
    return take_answer(context, f"issue-{asked.issue_number}", lambda _: answer, "answer", wanted)


_EPILOG: Final = """\
irontree answer                            what waits, and then your decision
irontree answer 3 retry:2                  two more attempts at issue-3
irontree answer 3 reject: too short        as irontree reject 3 --note 'too short'
irontree answer 3 approve:NAME             exactly what has this name
irontree answer LOOP extend:20             more transitions for a loop, or extend:'5 USD'
"""
VERBS: Final = {
    "answer": Verb(
        run,
        argument("asked", metavar="ISSUE|LOOP", nargs="?", help="what asks (default: whatever waits here)"),
        argument("choice", metavar="CHOICE", nargs="*", help="the answer; without one you are asked at the terminal"),
        wait(),
        JSON,
        epilog=_EPILOG,
    )
}
