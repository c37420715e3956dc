"""`irontree audit`, and the diagnostic modes of `checkup`: check, reconcile, repair, pre-flight."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from irontree.app import App
from irontree.cli.context import Context, Verb, find_issue, find_number
from irontree.cli.inbox import question_block
from irontree.cli.output import Cell, OutputBlock, TextLines, listing
from irontree.cli.parser import JSON, argument
from irontree.domain import typed
from irontree.domain.state import TaskState
from irontree.domain.text import counted
from irontree.errors import RemoteFailed
from irontree.services.consistency import reconcile as service
from irontree.services.consistency.audit import (
    AuditFinding,
    audit,
    lost_findings,
    published_findings,
    stream_findings,
    unreadable,
)
from irontree.services.consistency.reconcile import Restoration, repair
from irontree.services.delivery.comments import lint_comments
from irontree.services.execution.steps import follow_up
from irontree.services.loops.loop import open_loops, read_loops
from irontree.services.questions.commands import question_json
from irontree.services.questions.listing import asked_about, list_questions
from irontree.services.questions.questions import Question
from irontree.services.record import World, read_world
from irontree.services.views.history import request_url_of
from irontree.services.views.overview import half_published, title_of
from irontree.services.work.preflight import (
    FREE_TRANSITIONS,
    blockers,
    changed_since_approval,
    repeated_failure,
    require_runnable,
    stop_before_run,
)


def run_check(context: Context) -> int:
    """Report contradictions in the log, effects that are due, and our comments with content that they must not have.

    Writes nothing. Exit code 1 if anything is found.
    """
    app = context.open()
    found = (*findings(app, read_world(app)), *_unfit_comments(app))
    _show(context, found)
    return 1 if found else 0


def findings(app: App, world: World) -> Iterator[AuditFinding]:
    """Unreadable files, gaps, illegal events, issues without a plan, effects not delivered."""
    yield from lost_findings(app)
    yield from (unreadable(problem) for problem in world.problems)
    for number, replay in sorted(world.replays.items()):
        where = f"issue-{number}"
        yield from stream_findings(where, app.log.read(number))
        if replay.state and replay.state.task_key not in world.plans:
            yield AuditFinding(where, f"{replay.state.task_key} is in no approved plan", replay.state.way_to_plan)
        ledger = app.deliveries.load(number)
        for failure in ledger.failures:
            yield AuditFinding(where, f"not delivered yet: {failure}", "`irontree checkup reconcile` tries again")
        yield from (AuditFinding(where, what, "`irontree checkup repair` puts it right") for what in ledger.noticed)
    yield from (AuditFinding(*found) for found in half_published(app, world))
    yield from published_findings(app, world)
    yield from (AuditFinding("loops", problem) for problem in read_loops(app)[1])


def _unfit_comments(app: App) -> Iterator[AuditFinding]:
    try:
        for comment in lint_comments(app):
            what = f"our comment holds {', '.join(comment.problems)}: {comment.comment}"
            yield AuditFinding(f"issue-{comment.issue_number}", what, "delete it there")
    except RemoteFailed as error:
        app.progress.note(f"the comments could not be read: {error.message}")


# --- reconcile ----------------------------------------------------------------------------------------------


def run_reconcile(context: Context) -> int:
    """Restore the log, record gaps and outside changes, deliver due effects; 1 if anything is wrong or was recorded."""
    app, options = context.open(), context.options
    number = find_number(read_world(app), options.issue) if options.issue else None
    with app.driver.hold("reconcile", wait_seconds=options.wait):
        done = service.reconcile(app, number)
    world = read_world(app)
    new = tuple(_recorded(done))
    told = {(item.where, item.what) for item in new}
    found = (*new, *(item for item in findings(app, world) if (item.where, item.what) not in told))
    questions, pending = list_questions(app, world, read_loops(app)[0]), dict(_pending(app, world, done))
    context.console.show(
        lambda: _as_json(found, questions, tuple(pending)),
        chain(
            _blocks(found, questions),
            listing(_local_sources(done)),
            listing(pending.values(), title="Pending Acceptance"),
        ),
    )
    return 1 if found else 0


def _recorded(done: service.Reconciliation) -> Iterator[AuditFinding]:
    yield from (AuditFinding(f"issue-{one.issue_number}", *_restored(one)) for one in done.restored if not one.is_local)
    yield from (AuditFinding(f"issue-{n}", "missing events were recorded; it is blocked") for n in done.gaps)
    yield from (AuditFinding(f"issue-{number}", what) for number, what in done.settled)
    yield from done.outside
    yield from (AuditFinding(f"issue-{n}", "is as it was approved again and goes on") for n in done.approved_again)
    if done.unseen:
        yield AuditFinding("forge", *service.not_seen(done.unseen))


def _what_accepts(app: App, number: int) -> str:
    url = request_url_of(app.log.read(number))
    return f"merge {url}" if url else typed.accept(number)


def _restored(one: Restoration) -> tuple[str, str]:
    """What was done about a missing log, and what the user should do."""
    if not one.events:
        trusted = f"; {one.distrusted} by people without write access" if one.distrusted else ""
        what = f"no events here, and none in its comments that can be used{trusted}"
        return what, f"irontree task adopt issue-{one.issue_number}"
    what = f"{one.events} event(s) restored from its {one.source}"
    if one.diverging:
        what += f"; they contradict each other at sequence {', '.join(map(str, one.diverging))}"
    return what, "" if one.sound else "say whether the work goes on without what is missing"


def _pending(app: App, world: World, done: service.Reconciliation) -> Iterator[tuple[int, str]]:
    """The issues that wait for acceptance, each with a line that says how to accept it."""
    for asked in done.pending_acceptance:
        if number := asked.issue_number:
            yield number, f"#{number} {title_of(world, asked.task_key or '')}: {_what_accepts(app, number)}"


def _local_sources(done: service.Reconciliation) -> tuple[str, ...]:
    local = (one for one in done.restored if one.is_local)
    return tuple(f"issue-{one.issue_number}: local events: {one.events} file(s), primary source used" for one in local)


# --- repair -------------------------------------------------------------------------------------------------


def run_repair(context: Context) -> int:
    """Rebuild what is derived from the log and the plans and report differences; 1 if problems remain."""
    app = context.open()
    with app.driver.hold("repair", wait_seconds=context.options.wait):
        done = repair(app)
    left = tuple(findings(app, read_world(app)))
    mended = [{"where": one.where, "what": one.what} for one in done]
    lines = tuple(Cell(f"{one.where}: {one.what}", "good") for one in done) or (Cell("Nothing was to be repaired."),)
    context.console.show(
        lambda: {"repaired": mended, **_as_json(left)},
        [TextLines(lines), *(_blocks(left) if left else ())],
    )
    return 1 if left else 0


# --- pre-flight ---------------------------------------------------------------------------------------------


def run_pre_flight(context: Context) -> int:
    """Print `pre-flight ok issue-12` and write nothing, or print all obstacles and record the first."""
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


def obstacles(app: App, world: World, state: TaskState) -> Iterator[AuditFinding]:
    """Everything that would stop an attempt."""
    changed = changed_since_approval(app, world, state)
    if changed:
        yield AuditFinding(f"issue-{state.issue_number}", changed, "approve it as it is now, or take the change back")
    if alike := repeated_failure(world, state):
        yield AuditFinding(f"issue-{state.issue_number}", alike, "compare the attempts, and say how to go on")
    for blocker in blockers(app, world, state):
        yield AuditFinding(blocker.check, blocker.message, blocker.remedy)
    if state.free_streak >= FREE_TRANSITIONS:
        yield AuditFinding(f"issue-{state.issue_number}", f"{state.last_event} {state.free_streak} times in a row")


def _clear(context: Context, state: TaskState) -> None:
    text = f"pre-flight ok issue-{state.issue_number}"
    context.console.show(lambda: {"issue": state.issue_number, "ok": True}, [TextLines((Cell(text, "good"),))])


# --- all of them --------------------------------------------------------------------------------------------


def _show(context: Context, found: tuple[AuditFinding, ...], asked: tuple[Question, ...] = ()) -> None:
    context.console.show(lambda: _as_json(found, asked), _blocks(found, asked))


def _as_json(
    found: tuple[AuditFinding, ...], asked: tuple[Question, ...] = (), pending: tuple[int, ...] = ()
) -> dict[str, Any]:
    return {
        **audit_json(found),
        "questions": [question_json(question) for question in asked],
        "pending_acceptance": list(pending),
    }


def _blocks(found: tuple[AuditFinding, ...], asked: tuple[Question, ...] = ()) -> Iterator[OutputBlock]:
    yield from listing((item.line() for item in found), "bad")
    if not found:
        yield from listing(("Nothing is wrong.",), "good")
    yield from map(question_block, asked)


# --- `irontree audit`


def run_audit(context: Context) -> int:
    """Print what was found; writes nothing but the seals of `--vouch`."""
    app = context.look()
    if context.options.vouch:
        context.console.note(f"sealed {counted(app.results.vouch(), 'check result')} that you vouch for")
        if asked := app.agent_requests.vouch():
            context.console.note(f"sealed {counted(asked, 'request')} to agents that you vouch for")
    found = audit(app)
    looked_at = (
        f"{len(app.log.streams())} issue(s), {len(app.loops.ids())} loop(s), {len(app.plans.revisions())} plan(s)"
    )
    context.console.show(lambda: audit_json(found), audit_blocks(found, looked_at))
    return 1 if found else 0


def audit_json(found: tuple[AuditFinding, ...]) -> dict[str, Any]:
    """`ok`, and `findings` with where, what and remedy (or null)."""
    return {"ok": not found, "findings": [item.as_json() for item in found]}


def audit_blocks(found: tuple[AuditFinding, ...], looked_at: str) -> Iterator[OutputBlock]:
    """The human-readable output."""
    if not found:
        yield from listing((f"Sound: {looked_at}, every event legal, chained, and its commits here.",), "good")
    yield from listing((item.line() for item in found), "bad", f"{len(found)} finding(s) in {looked_at}")


VERBS: Final = {
    "audit": Verb(
        run_audit,
        argument(
            "--vouch", action="store_true", help="first accept all stored check results and requests to agents as yours"
        ),
        JSON,
    )
}
