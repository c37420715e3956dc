"""The modes of `checkup` that look for trouble: check, reconcile, pre-flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from irontree.app import App
from irontree.cli.blocks import Block, Cell, Lines
from irontree.cli.context import Context
from irontree.cli.finding import find_issue
from irontree.cli.hints import OpenQuestion
from irontree.cli.questions import asked_about, open_questions, question_block
from irontree.domain.state import TaskState
from irontree.services import reconcile as service
from irontree.services.approve import changed_since_approval
from irontree.services.audit import RESTORE, Finding, lost_findings, stream_findings
from irontree.services.loop import open_loops, read_loops
from irontree.services.preflight import FREE_TRANSITIONS, blockers, require_runnable, stop_before_run
from irontree.services.steps import follow_up
from irontree.services.world import World, read_world

# --- check --------------------------------------------------------------------------------------------------


def check(context: Context) -> int:
    """Say what contradicts itself in the log, and which effects are due; writes nothing. 1 if anything is found."""
    app = context.open()
    found = tuple(findings(app, read_world(app)))
    _show(context, found, ())
    return 1 if found else 0


def findings(app: App, world: World) -> Iterator[Finding]:
    """Unreadable files, gaps, illegal events, issues without a plan, effects not delivered."""
    yield from lost_findings(app)
    yield from (Finding(problem.path, problem.what, RESTORE) for problem in world.problems)
    for number, replay in sorted(world.replays.items()):
        where = f"issue-{number}"
        yield from stream_findings(where, app.log.read(number))
        if replay.state and replay.state.task_key not in world.plans:
            yield Finding(where, f"{replay.state.task_key} is in no approved plan", "irontree task SPEC.md")
        for failure in app.deliveries.load(number).failures:
            yield Finding(where, f"not delivered yet: {failure}", "`irontree checkup reconcile` tries again")


# --- reconcile ----------------------------------------------------------------------------------------------


def reconcile(context: Context) -> int:
    """Record gaps and closings from outside, deliver what is due. 1 if anything is wrong or was recorded."""
    app = context.open()
    with app.driver.hold("reconcile", wait_seconds=context.options.wait):
        done = service.reconcile(app)
    world = read_world(app)
    found = (*_recorded(done), *findings(app, world))
    _show(context, found, open_questions(app, world, read_loops(app)[0]))
    return 1 if found else 0


def _recorded(done: service.Reconciliation) -> Iterator[Finding]:
    yield from (Finding(f"issue-{n}", "missing events were recorded; it is blocked") for n in done.gaps)
    yield from (
        Finding(f"issue-{n}", "was closed outside, without evidence; it is blocked") for n in done.closed_outside
    )
    yield from (Finding(f"issue-{n}", "is as it was approved again and goes on") for n in done.approved_again)


# --- pre-flight ---------------------------------------------------------------------------------------------


def pre_flight(context: Context) -> int:
    """`pre-flight ok issue-12` and nothing written, or all that is in the way, with the first of it recorded."""
    app = context.open()
    world = read_world(app)
    state = find_issue(world, context.options.issue)
    require_runnable(world, state)
    found = tuple(obstacles(app, world, state))
    if not found:
        _clear(context, state)
        return 0
    with app.driver.hold(f"issue-{state.issue_number}, pre-flight", wait_seconds=context.options.wait):
        now = read_world(app)
        stopped = stop_before_run(app, now, now.state(state.issue_number))
        if stopped:
            follow_up(app, stopped)
            app.repository.back_up()
    now = read_world(app)
    asked = asked_about(app, now, open_loops(app), now.state(state.issue_number))
    _show(context, found, (asked,) if asked else ())
    return 1


def obstacles(app: App, world: World, state: TaskState) -> Iterator[Finding]:
    """Everything that an attempt would stop at."""
    changed = changed_since_approval(app, world, state)
    if changed:
        yield Finding(f"issue-{state.issue_number}", changed, "approve it as it is now, or take the change back")
    for blocker in blockers(app, world.plans[state.task_key]):
        yield Finding(blocker.check, blocker.message, blocker.remedy)
    if state.free_streak >= FREE_TRANSITIONS:
        yield Finding(f"issue-{state.issue_number}", f"{state.last_event} {state.free_streak} times in a row")


def _clear(context: Context, state: TaskState) -> None:
    text = f"pre-flight ok issue-{state.issue_number}"
    context.console.show(lambda: {"issue": state.issue_number, "ok": True}, [Lines((Cell(text, "good"),))])


# --- both ---------------------------------------------------------------------------------------------------


def _show(context: Context, found: tuple[Finding, ...], asked: tuple[OpenQuestion, ...]) -> None:
    context.console.show(lambda: _as_json(found, asked), _blocks(found, asked))


def _as_json(found: tuple[Finding, ...], asked: tuple[OpenQuestion, ...]) -> dict[str, Any]:
    return {
        "ok": not found,
        "findings": [item.as_json() for item in found],
        "questions": [question.as_json() for question in asked],
    }


def _blocks(found: tuple[Finding, ...], asked: tuple[OpenQuestion, ...]) -> Iterator[Block]:
    if found:
        yield Lines(tuple(Cell(item.line(), "bad") for item in found))
    else:
        yield Lines((Cell("Nothing is wrong.", "good"),))
    yield from (question_block(question) for question in asked)
