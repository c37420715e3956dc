"""`irontree accept|reject|retry|skip ISSUE`: a person's decision in one word; how the command line takes any answer.

The words make the choices of `domain/halt.py`. What an issue does not offer is refused with the commands that it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from irontree.app import App
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.output import Cell, TextLines, next_commands
from irontree.cli.parser import ISSUE, JSON, OK, UsageError, argument, wait
from irontree.cli.steps import take_step
from irontree.cli.trial import WAIT_SECONDS
from irontree.domain import typed
from irontree.domain.halt import choice_called
from irontree.domain.state import TaskState
from irontree.errors import AnswerRefused, RemoteUnavailable, ServerUnavailable
from irontree.services.answers.answers import Answer, answer_issue, answer_loop, between_steps
from irontree.services.execution.steps import require_not_published, waits_with_commit
from irontree.services.loops import loop as loops
from irontree.services.questions.commands import answers_to, goes_on, next_command
from irontree.services.questions.listing import asked_about
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.services.views.workflow_run import show_runs_of

ENDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "accept": ("checkup_accept_recorded", "checkup_unblocked"),
        "send-back": ("verify_failed_retryable", "verify_failed_terminal", "checkup_unblocked"),
    }
)
"""The events with which these choices end if they were taken; `GOES_ON` for all others."""
GOES_ON: Final = ("checkup_unblocked", "task_approved", "task_published", "verify_failed_retryable")


Make = Callable[[Question | None], Answer]
"""Makes the answer to the question that is open when it is recorded; who gives it is filled in."""


def take_answer(context: Context, issue: str, make: Make, doing: str, wanted: Collection[str]) -> int:
    """Record what *make* answers to the question of *issue*, wake the run that waits for it, and print what follows.

    *doing* tells others why the driver lock is held.
    """

    def answer(app: App, state: TaskState) -> None:
        number = state.issue_number
        with between_steps(app, f"issue-{number}, {doing}", wait_seconds=context.options.wait):
            world = read_world(app)
            asked = asked_about(app, world, loops.open_loops(app), world.state(number))
            _record(app, number, replace(make(asked), by=app.origin.actor), asked)
        _wake(context, app, number)

    return take_step(context, answer, wanted, issue=issue, beside_loop=True)


def _record(app: App, number: int, answer: Answer, asked: Question | None) -> None:
    """Record the answer; if it does not fit, name the commands that do; an outage leaves the question open."""
    try:
        answer_issue(app, number, answer)
    except RemoteUnavailable as error:
        later = error.remedy or "the question stays open: answer again later"
        raise RemoteUnavailable(f"not answered: {error.message}", remedy=later) from error
    except AnswerRefused as error:
        fitting = _fitting(asked)
        if asked is None or not fitting:
            raise
        if choice_called(answer.choice, asked.rule.choices):
            raise  # it fits, and the obstacle has its own remedy
        message = error.message if answer.choice else f"issue-{number} asks: {asked.rule.title}"
        raise AnswerRefused(message, remedy=fitting) from error


def _fitting(asked: Question | None) -> str:
    """The commands that answer the question; empty if none can."""
    return " | ".join(f"`{command}`" for _, command in (answers_to(asked) if asked else ()))


def _wake(context: Context, app: App, number: int | None, loop_id: str = "") -> None:
    """Have the run that waits for this issue, or else for this loop, read the log again; the answer is in it already.

    On the private server a run continues only while a terminal serves it: otherwise the next command starts it.
    """
    from irontree.flows.server.connection import adopt_server, chosen_api_url

    served = goes_on(app) or chosen_api_url(os.environ, app.preferences().api_url)
    if not adopt_server(app):
        return  # `irontree resume` continues from the log
    from irontree.flows.runs.recovery import close_overtaken, start_again, take_up  # imports Prefect: settings first

    try:
        if number is None:
            started = f"loop {loop_id} goes on" if take_up(app, loop_id) else ""
        else:
            started = start_again(app, number) or ""
    except ServerUnavailable as error:
        context.console.note(f"recorded; its run will see it later: {error.message}")
        return
    if loop_id:
        close_overtaken(app)
    if started and served:
        context.console.note(started)


# --- accept, reject, retry


def _word(context: Context, make: Make, doing: str, wanted: Collection[str] = GOES_ON) -> int:
    return take_answer(context, context.options.issue, make, doing, wanted)


def run_accept(context: Context) -> int:
    """Accept the commit that waits, or how the checks fail without any work."""
    return _word(context, lambda _: Answer("accept", by="", note=_note(context)), "accept", ENDS["accept"])


def run_reject(context: Context) -> int:
    """Send the work back with a note, or answer the agent that asks."""
    note = _note(context)
    if not note:
        issue = context.options.issue
        raise UsageError(f"reject needs a note for the next attempt: irontree reject {issue} --note 'what to change'")
    return _word(context, lambda _: Answer("reject", by="", note=note), "reject", ENDS["send-back"])


def run_retry(context: Context) -> int:
    """Allow one more attempt where they are used up, or go on after a block."""
    return _word(context, lambda _: Answer("retry", by="", note=_note(context), count=1), "retry")


def _note(context: Context) -> str:
    note = " ".join(context.options.note).strip()
    if note == "NOTE":
        raise UsageError("NOTE stands for what you want to say: put your own words in its place")
    return note


# --- skip


def run_skip(context: Context) -> int:
    """Leave the task out of its open loop, whether it asks something or not."""
    app, options = context.open(), context.options
    world, alive = read_world(app), loops.open_loops(app)
    key = options.issue if options.issue in world.nodes else find_issue(world, options.issue).task_key
    loop_id = loops.loop_of(alive, key)
    if loop_id is None:
        state = world.states.get(key)
        fitting = _fitting(asked_about(app, world, alive, state) if state else None)
        raise AnswerRefused(f"{key} is in no open loop that could leave it out", remedy=fitting or _LOOK)
    return skip_issue(context, app, loop_id, key, _note(context))


def skip_issue(context: Context, app: App, loop_id: str, key: str, note: str) -> int:
    """Leave the task out of that loop, and print what else that leaves out and what follows."""
    world = read_world(app)
    skipped = skip_task(app, loop_id, key, note=note, wait_seconds=context.options.wait)
    app.repository.back_up()
    _wake(context, app, world.states[key].issue_number if key in world.states else None, loop_id)
    following = next_command(app, read_world(app), loops.read_loops(app)[0])
    context.console.show(
        lambda: {"skipped": list(skipped), "loop_id": loop_id, "next": following or None},
        [TextLines((Cell(f"Skipped: {', '.join(skipped)}", "good"),)), *next_commands(following)],
    )
    return OK


_LOOK: Final = "`irontree status` shows what comes next"


def skip_task(
    app: App, loop_id: str, key: str, *, note: str = "", wait_seconds: float = WAIT_SECONDS
) -> tuple[str, ...]:
    """Skip the task in that loop; returns the keys of all that this leaves out."""
    world = read_world(app)
    state = world.states.get(key)
    if state and waits_with_commit(world, state):
        with between_steps(app, f"{key}, skip", wait_seconds=wait_seconds):
            require_not_published(app, world, state)
    return loops.skip(app, loop_id, key, app.origin.actor, note)


# --- stop, and what else a loop is answered


def run_stop(context: Context) -> int:
    """End the loop that is named, or else the one that is open."""
    app, named = context.open(), context.options.loop_id
    loop = loops.require_open(loops.read_loop(app, named)) if named else loops.only_open(app, typed.stop)
    return stop_loop(context, app, loop.id, _note(context))


def stop_loop(context: Context, app: App, loop_id: str, note: str = "") -> int:
    """End the loop, and close what its runs ask."""
    loops.cancel(app, loop_id, app.origin.actor, note=note)
    show_runs_of(app, loop_id)
    app.repository.back_up()
    from irontree.flows.server.connection import adopt_server

    if adopt_server(app):
        from irontree.flows.runs.recovery import close_overtaken  # imports Prefect: its settings come first

        close_overtaken(app)
    said = f"Loop {loop_id} cancelled. Its issues keep their state: irontree status"
    context.console.show(lambda: {"loop_id": loop_id, "status": "cancelled"}, [TextLines((said,))])
    return OK


def tell_loop(context: Context, app: App, asked: Question, answer: Answer) -> int:
    """Record the answer to a loop's own question, wake its run, and print what follows."""
    loop_id = asked.loop_id or ""
    with between_steps(app, f"loop {loop_id}, answer", wait_seconds=context.options.wait):
        answer_loop(app, loop_id, replace(answer, by=app.origin.actor))
    _wake(context, app, None, loop_id)
    following = next_command(app, read_world(app), loops.read_loops(app)[0])
    ways = ". It goes on by itself" if goes_on(app) else ". To have it go on, resume it"
    how = "" if answer.choice == "stop" else ways
    context.console.show(
        lambda: {"loop_id": loop_id, "answer": answer.choice, "next": following or None},
        [TextLines((Cell(f"Loop {loop_id}: {answer.choice}{how}", "good"),)), *next_commands(following)],
    )
    return OK


NOTE: Final = argument(
    "--note", metavar="TEXT", nargs="+", default=[], help="why, or what the next attempt should change"
)
_LOOP: Final = argument("loop_id", metavar="LOOP", nargs="?", help="which one (default: the one that is open)")
VERBS: Final = {
    "accept": Verb(run_accept, ISSUE, NOTE, wait(), JSON),
    "reject": Verb(run_reject, ISSUE, NOTE, wait(), JSON),
    "retry": Verb(
        run_retry, ISSUE, NOTE, wait(), JSON, epilog="For more attempts at once: irontree answer ISSUE retry:3"
    ),
    "skip": Verb(run_skip, ISSUE, NOTE, wait(), JSON),
    "stop": Verb(run_stop, _LOOP, NOTE, JSON),
}
