"""`irontree run`, `verify` and `checkup`: make one transition, then print the result and what to type next."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from irontree.app import App
from irontree.cli import consistency
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.inbox import question_block
from irontree.cli.output import Cell, OutputBlock, Style, TextLines, Verbatim, listing, next_commands
from irontree.cli.parser import INTERRUPTED, ISSUE, JSON, OK, REFUSED, UsageError, argument, note, positive, wait
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import Phase, TaskState
from irontree.errors import AnswerRefused, RemoteUnavailable, ServerUnavailable
from irontree.services.answers.answers import Answer, answer_issue, between_steps, let_time_pass
from irontree.services.execution.steps import perform
from irontree.services.loops.choice import refuse_beside_loop
from irontree.services.loops.loop import open_loops, read_loops, still_open
from irontree.services.questions.commands import answers_to, goes_on, next_command_about, question_json
from irontree.services.questions.listing import asked_about
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.services.views.history import failure_of, say_issue_event
from irontree.services.views.overview import title_of

UNDELIVERED: Final = "Not delivered yet, tried again later"
_FAILURES = ("verify_failed_retryable", "verify_failed_terminal", "run_commit_failed")


class StepReport:
    """One issue after a step: the events that the step added, and what comes next."""

    def __init__(self, app: App, before: TaskState, wanted: Collection[str]) -> None:
        """What happened to the issue since *before*; *wanted* are the events that the step was to add."""
        world, loops = read_world(app), read_loops(app)[0]
        self.state = state = world.state(before.issue_number)
        stream = app.log.read(before.issue_number)
        after = before.sequence if state.approved_revision == before.approved_revision else 0
        self.records = tuple(record for record in stream.records if record.event.sequence > after)
        failed = bool(self.records) and self.records[-1].event.event in _FAILURES
        failure = failure_of(app, stream, state) if failed else None
        self.title = title_of(world, state.task_key)
        self.wanted = any(record.event.event in wanted for record in self.records)
        self.next = next_command_about(app, world, loops, state)
        self.question = asked_about(app, world, still_open(loops), state)
        self.output = failure.output if failure else ""
        self.undelivered = app.deliveries.load(state.issue_number).failures


def take_step(
    context: Context, step: Callable[[App, TaskState], None], wanted: Collection[str], *, beside_loop: bool = False
) -> int:
    """Take *step* on the issue; the exit code tells whether it ended with one of the *wanted* events.

    Only decisions of a user are taken *beside_loop*, while a loop is running.
    """
    with context.interruptible() as cancel:
        app = context.open(cancel=cancel)
        before = find_issue(read_world(app), context.options.issue)
        if not beside_loop:
            refuse_beside_loop(app)
        step(app, before)
        app.repository.back_up()
        code = tell(context, app, before, wanted)
        return INTERRUPTED if cancel.is_set() else code


def tell(context: Context, app: App, before: TaskState, wanted: Collection[str]) -> int:
    """Print what was recorded since *before* and what to type next; 0 if it ended with a *wanted* event."""
    told = StepReport(app, before, wanted)
    context.console.show(lambda: as_json(told), blocks(told))
    return OK if told.wanted else REFUSED


def as_json(told: StepReport) -> dict[str, Any]:
    """The documented JSON keys."""
    return {
        "issue": told.state.issue_number,
        "task_key": told.state.task_key,
        "title": told.title,
        "phase": told.state.phase.value,
        "attempt": told.state.attempt_count,
        "attempts": told.state.total_attempts,
        "code_ref": told.state.code_ref,
        "events": [event_json(record) for record in told.records],
        "output": told.output or None,
        "question": question_json(told.question) if told.question else None,
        "next": told.next or None,
        "undelivered": list(told.undelivered),
    }


def event_json(record: Record[IssueEvent]) -> dict[str, Any]:
    """One event in a history: its name, time and description."""
    event = record.event
    return {
        "sequence": event.sequence,
        "event": event.event,
        "time": record.told.time or None,
        "text": say_issue_event(record),
    }


def blocks(told: StepReport) -> Iterator[OutputBlock]:
    """The human-readable output."""
    where = f"#{told.state.issue_number} {told.title}"
    style: Style = "good" if told.wanted else "bad"
    yield TextLines(tuple(Cell(f"{where}: {say_issue_event(record)}", style) for record in told.records))
    if told.output:
        yield Verbatim(told.output, title="What it said")
    yield from listing(told.undelivered, "bad", UNDELIVERED)
    if told.question:
        yield question_block(told.question)
    yield from next_commands(told.next)


# --- `irontree run ISSUE`


def run_attempt(context: Context) -> int:
    """Take the step; 0 if the attempt ended with a commit, or needed no change."""

    def step(app: App, state: TaskState) -> None:
        # An attempt that was cut off is settled first; that is a transition of its own.
        wait = context.options.wait
        state = let_time_pass(app, state, wait)
        cut_off = state.phase is Phase.RUNNING
        settled = perform(app, Recover(state.task_key), wait_seconds=wait) if cut_off else state
        if not cut_off or (settled.phase is Phase.READY and not app.cancel.is_set()):
            perform(app, Run(state.task_key), wait_seconds=wait)

    return take_step(context, step, wanted=("run_completed",))


# --- `irontree verify ISSUE [NOTE]`


def run_verify(context: Context) -> int:
    """Take the step; 0 if the issue is verified and published."""
    options = context.options

    def step(app: App, state: TaskState) -> None:
        let_time_pass(app, state, options.wait)
        perform(app, Verify(state.task_key), wait_seconds=options.wait, note=" ".join(options.note))

    return take_step(context, step, wanted=("verify_passed",))


# --- `irontree checkup MODE [ISSUE] [NOTE]`


@dataclass(frozen=True, slots=True)
class CheckupMode:
    """One mode: what it does, and whether it takes an issue and a note, each as in `note`."""

    help: str
    run: Callable[[Context], int]
    issue: str = "required"
    note: str = ""
    """`optional`, `required`, or empty if it takes none."""


def run_checkup(context: Context) -> int:
    """Run the mode, after checking its arguments."""
    options = context.options
    mode = MODES[options.mode]
    _require_fit(options, mode)
    return mode.run(context)


def _require_fit(options: argparse.Namespace, mode: CheckupMode) -> None:
    name, note = options.mode, " ".join(options.note)
    if mode.issue == "required" and not options.issue:
        raise UsageError(f"checkup {name} needs an issue: irontree checkup {name} issue-12")
    if options.issue and not mode.issue:
        raise UsageError(f"checkup {name} looks at all issues; leave {options.issue!r} out")
    if mode.note == "required" and not note.strip():
        raise UsageError(f"checkup {name} needs a note: irontree checkup {name} {options.issue} 'what to change'")
    if note and not mode.note:
        raise UsageError(f"checkup {name} takes no note: {note!r}")
    given = sum(map(bool, (options.retry, options.verify, options.allow, options.approve)))
    if name != "unblock" and given:
        raise UsageError("--retry, --verify, --allow and --approve belong to checkup unblock")
    if given > 1:
        raise UsageError("one of --retry, --verify, --allow and --approve at a time")


def _moving(step: Callable[[str], Step], wanted: str) -> Callable[[Context], int]:
    """A mode that takes one step of an issue."""

    def run(context: Context) -> int:
        def move(app: App, state: TaskState) -> None:
            perform(app, step(state.task_key), wait_seconds=context.options.wait)

        return take_step(context, move, (wanted,))

    return run


def _unblocking(options: argparse.Namespace, asked: Question) -> str:
    """The choice that the options name; without any, the default choice of a block."""
    given = {"retry": options.retry, "verify": options.verify, "allow": options.allow, "approve": options.approve}
    named = next((choice for choice, value in given.items() if value), "go-on")
    return named if named != "go-on" or asked.reason == "blocked" else ""


def _answering(choose: Callable[[argparse.Namespace, Question], str], *wanted: str) -> Callable[[Context], int]:
    """A mode that records a decision, then wakes the run that waits for it (rulings, Questions)."""

    def run(context: Context) -> int:
        def answer(app: App, state: TaskState) -> None:
            number, options = state.issue_number, context.options
            with between_steps(app, f"issue-{number}, {options.mode}", wait_seconds=options.wait):
                world = read_world(app)
                asked = asked_about(app, world, open_loops(app), world.state(number))
                given = Answer(
                    choice=choose(options, asked) if asked else "",
                    by=app.origin.actor,
                    note=" ".join(options.note),
                    count=options.retry,
                    revision=options.approve,
                )
                _record(app, number, given, asked)
            _wake_run(context, app, number)

        return take_step(context, answer, wanted, beside_loop=True)

    return run


def _record(app: App, number: int, answer: Answer, asked: Question | None) -> None:
    """Record the answer; if it does not fit, name the commands that do; an outage leaves the question open."""
    try:
        answer_issue(app, number, answer)
    except RemoteUnavailable as error:
        later = error.remedy or "the question stays open: answer again later"
        raise RemoteUnavailable(f"not answered: {error.message}", remedy=later) from error
    except AnswerRefused as error:
        commands = answers_to(asked) if asked else ()
        if asked is None or not commands:
            raise
        if answer.choice in {choice.name for choice in asked.rule.choices}:
            raise  # it fits, and the obstacle has its own remedy
        fitting = " | ".join(f"`{command}`" for _, command in commands)
        message = error.message if answer.choice else f"issue-{number} asks: {asked.rule.title}"
        raise AnswerRefused(message, remedy=fitting) from error


def _wake_run(context: Context, app: App, number: int) -> None:
    """Have the run that waits for this issue read the log again; the answer is already recorded in any case.

    On the private server a run continues only while a terminal serves it: otherwise the next command starts it.
    """
    from irontree.flows.server.connection import adopt_server, chosen_api_url

    served = goes_on(app) or chosen_api_url(os.environ, app.preferences().api_url)
    if not adopt_server(app):
        return  # `irontree task resume` continues from the log
    from irontree.flows.runs.recovery import start_again  # imports Prefect: its settings come first

    try:
        started = start_again(app, number)
    except ServerUnavailable as error:
        context.console.note(f"recorded; its run will see it later: {error.message}")
        return
    if started and served:
        context.console.note(started)


MODES: Final[Mapping[str, CheckupMode]] = MappingProxyType(
    {
        "check": CheckupMode(
            "compare the log with itself, write nothing (the default)", consistency.run_check, issue=""
        ),
        "reconcile": CheckupMode(
            "compare the log with the forge, record what is wrong (with ISSUE: restore its log from its comments)",
            consistency.run_reconcile,
            issue="optional",
        ),
        "repair": CheckupMode(
            "make again what is derived from the log: issue texts, labels, briefs", consistency.run_repair, issue=""
        ),
        "pre-flight": CheckupMode("whether an attempt could start now", consistency.run_pre_flight),
        "accept": CheckupMode(
            "accept and publish the commit that waits, merged and checked again if the target has moved",
            _answering(lambda *_: "accept", "checkup_accept_recorded", "checkup_unblocked"),
            note="optional",
        ),
        "reject": CheckupMode(
            "send it back; the note tells the next attempt what to change",
            _answering(
                lambda *_: "send-back", "verify_failed_retryable", "verify_failed_terminal", "checkup_unblocked"
            ),
            note="required",
        ),
        "unblock": CheckupMode(
            "go on after a block, a failure or a change of what was approved",
            _answering(_unblocking, "checkup_unblocked", "task_approved", "task_published", "verify_failed_retryable"),
            note="optional",
        ),
        "aggregate": CheckupMode(
            "complete a parent from its children, all done", _moving(Aggregate, "checkup_aggregate_recorded")
        ),
        "finalize": CheckupMode("bind the completion evidence: done", _moving(Finalize, "checkup_done")),
    }
)


_BLOCKED: Final = ", or for the time at which a block ends"
VERBS: Final = {
    "run": Verb(run_attempt, ISSUE, wait(_BLOCKED), JSON),
    "verify": Verb(run_verify, ISSUE, note("words for the report, if there is one"), wait(_BLOCKED), JSON),
    "checkup": Verb(
        run_checkup,  # `run_checkup` looks which mode takes which
        argument("mode", metavar="MODE", nargs="?", default="check", choices=tuple(MODES), help="see below"),
        argument("issue", metavar="ISSUE", nargs="?", help="issue-12, #12, 12, or a task key"),
        note("why, or what the next attempt should change"),
        argument("--retry", metavar="N", type=positive, help="unblock: allow N more attempts, 1 to 50"),
        argument("--verify", action="store_true", help="unblock: verify the same commit again"),
        argument("--allow", action="store_true", help="unblock: allow what the agent was denied, and try again"),
        argument("--approve", metavar="NAME", help="unblock: approve what has this name now"),
        wait(),
        JSON,
        epilog="modes:\n" + "\n".join(f"  {name:<12}{mode.help}" for name, mode in MODES.items()),
    ),
}
