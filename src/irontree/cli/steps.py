"""`irontree run` and `verify`: make one transition, then print the result and what to type next; other verbs too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from irontree.app import App
from irontree.cli.context import Context, Verb, find_issue
from irontree.cli.inbox import question_block
from irontree.cli.output import Cell, OutputBlock, Style, TextLines, Verbatim, listing, next_commands
from irontree.cli.parser import INTERRUPTED, ISSUE, JSON, OK, REFUSED, note, wait
from irontree.domain.decide import Recover, Run, Verify
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import Phase, TaskState
from irontree.services.answers.answers import let_time_pass
from irontree.services.execution.steps import perform
from irontree.services.loops.choice import refuse_beside_loop
from irontree.services.loops.loop import read_loops, still_open
from irontree.services.questions.commands import next_command_about, question_json
from irontree.services.questions.listing import asked_about
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
    context: Context,
    step: Callable[[App, TaskState], None],
    wanted: Collection[str],
    *,
    issue: str = "",
    beside_loop: bool = False,
) -> int:
    """Take *step* on the issue; the exit code tells whether it ended with one of the *wanted* events.

    It is the one that the options name, or *issue*. Only decisions of a user are taken *beside_loop*, while a loop is
    running.
    """
    with context.interruptible() as cancel:
        app = context.open(cancel=cancel)
        before = find_issue(read_world(app), issue or context.options.issue)
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


_BLOCKED: Final = ", or for the time at which a block ends"
VERBS: Final = {
    "run": Verb(run_attempt, ISSUE, wait(_BLOCKED), JSON),
    "verify": Verb(run_verify, ISSUE, note("words for the report, if there is one"), wait(_BLOCKED), JSON),
}
