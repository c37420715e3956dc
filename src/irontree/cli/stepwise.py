"""What `run`, `verify` and `checkup` have in common: one transition, then what happened and what to type next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from irontree.app import App
from irontree.cli.asked import question_block
from irontree.cli.blocks import Block, Cell, Lines, Style, Verbatim
from irontree.cli.context import Context
from irontree.cli.exit_codes import INTERRUPTED, OK, REFUSED
from irontree.cli.finding import find_issue
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import TaskState
from irontree.services.hints import OpenQuestion
from irontree.services.loops.lease import refuse_beside_loop
from irontree.services.loops.loop import read_loops, still_open
from irontree.services.next_command import next_command_about
from irontree.services.open_questions import asked_about
from irontree.services.overview import title_of
from irontree.services.projections.failures import failure_of
from irontree.services.projections.narrate import say_issue_event
from irontree.services.world import read_world

_FAILURES = ("verify_failed_retryable", "verify_failed_terminal", "run_commit_failed")


@dataclass(frozen=True, slots=True)
class Told:
    """One issue after a step: the events that the step added, and what comes next."""

    state: TaskState
    title: str
    records: tuple[Record[IssueEvent], ...]
    wanted: bool
    """Whether the step came to what was asked for."""
    next: str
    question: OpenQuestion | None
    output: str
    undelivered: tuple[str, ...]


def take_step(
    context: Context, step: Callable[[App, TaskState], None], wanted: Collection[str], *, beside_loop: bool = False
) -> int:
    """Take *step* on the issue; the exit code says whether it ended with one of the *wanted* events.

    Only what a person decides is taken *beside_loop*, while a loop is at work.
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
    """Say what was recorded since *before*, and what to type next; 0 if it ended with a *wanted* event."""
    told = look_back(app, before, wanted)
    context.console.show(lambda: as_json(told), blocks(told))
    return OK if told.wanted else REFUSED


def look_back(app: App, before: TaskState, wanted: Collection[str]) -> Told:
    """What became of the issue since *before*."""
    world, loops = read_world(app), read_loops(app)[0]
    state, stream = world.state(before.issue_number), app.log.read(before.issue_number)
    after = before.sequence if state.approved_revision == before.approved_revision else 0
    records = tuple(record for record in stream.records if record.event.sequence > after)
    failed = bool(records) and records[-1].event.event in _FAILURES
    failure = failure_of(app, stream, state) if failed else None
    return Told(
        state=state,
        title=title_of(world, state.task_key),
        records=records,
        wanted=any(record.event.event in wanted for record in records),
        next=next_command_about(app, world, loops, state),
        question=asked_about(app, world, still_open(loops), state),
        output=failure.output if failure else "",
        undelivered=app.deliveries.load(state.issue_number).failures,
    )


def as_json(told: Told) -> dict[str, Any]:
    """The documented keys."""
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
        "question": told.question.as_json() if told.question else None,
        "next": told.next or None,
        "undelivered": list(told.undelivered),
    }


def event_json(record: Record[IssueEvent]) -> dict[str, Any]:
    """One event in a history: what it was, when, and in words."""
    event = record.event
    return {
        "sequence": event.sequence,
        "event": event.event,
        "time": record.meta.get("time"),
        "text": say_issue_event(record),
    }


def blocks(told: Told) -> Iterator[Block]:
    """The same for people."""
    where = f"#{told.state.issue_number} {told.title}"
    style: Style = "good" if told.wanted else "bad"
    yield Lines(tuple(Cell(f"{where}: {say_issue_event(record)}", style) for record in told.records))
    if told.output:
        yield Verbatim(told.output, title="What it said")
    if told.undelivered:
        yield Lines(tuple(Cell(line, "bad") for line in told.undelivered), title="Not delivered yet, tried again later")
    if told.question:
        yield question_block(told.question)
    if told.next:
        yield Lines((Cell(told.next, "command"),), title="Next")
