"""Compare the log with itself and the forge, remake derived files, and remove old transcripts (phase 6).

Approvals and events stay as they are: no plan and no existing event is changed here.

Order of the sources (protocol, Source Of Truth): the local log; the comment of a finished issue (before 1.12); the
comments of its events (before 1.10). Only text by us or by users with write access is read (R20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record, SequenceGapDetected
from irontree.domain.ids import adopted_source
from irontree.domain.issues import Comment, Issue
from irontree.domain.machine import Replay
from irontree.domain.restoration import RestoredStream, gap_event, restored
from irontree.domain.state import ADOPTED, MANAGED, TaskState
from irontree.domain.timestamps import moment
from irontree.errors import RemoteFailed
from irontree.files import is_folder, remove_beneath
from irontree.ports import EffectLedger, Problem
from irontree.services.consistency.audit import AuditFinding
from irontree.services.consistency.drift import is_question_deleted, look_outside, set_labels_back
from irontree.services.delivery.deliver import deliver
from irontree.services.delivery.issue_text import own_words, put_current, text_digest
from irontree.services.execution.merging import settle_requests
from irontree.services.execution.publish import release_approved
from irontree.services.execution.steps import catch_up, fetch_targets
from irontree.services.loops.loop import remake_entity
from irontree.services.questions.questions import Question, questions_of_issues
from irontree.services.record import World, read_world, reports
from irontree.services.views.history import say_issue_event, time_of
from irontree.services.views.report import write_brief, write_projections
from irontree.services.views.workflow_run import show_runs


def repair(app: App) -> tuple[AuditFinding, ...]:
    """Settle what crashes left, and remake loop files, issue texts, labels and briefs; returns what was different.

    The caller holds the driver lock. What the forge cannot do now is reported and tried again next time.
    """
    leftovers = app.upkeep.remove_leftovers() + app.repository.remove_leftovers()
    app.upkeep.drop_caches()
    catch_up(app)
    world = read_world(app)
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    found = (
        *((AuditFinding(".mino", f"{leftovers} file(s) or folder(s) that a kill left removed"),) if leftovers else ()),
        *(
            AuditFinding(f"loop {loop_id}", "its file was made again from its events")
            for loop_id in app.loops.ids()
            if remake_entity(app, loop_id)
        ),
        *(one for state in states if state.task_key not in world.cancelled for one in _issue(app, world, state)),
        *(one for state in states for one in _brief(app, world, state)),
    )
    app.repository.back_up()
    return found


def _issue(app: App, world: World, state: TaskState) -> Iterator[AuditFinding]:
    where = f"issue-{state.issue_number}"
    try:
        issue = app.forge().read_issue(state.issue_number)
        if issue is None or state.done or state.problem:
            return
        yield from (AuditFinding(where, change.what) for change in set_labels_back(app, state, issue))
        if not state.adopted and state.task_key in world.plans:
            yield from (AuditFinding(where, what) for what in _text(app, world, state, issue))
        yield from (AuditFinding(where, what) for what in _comment(app, world, state))
    except RemoteFailed as error:
        app.progress.note(f"{where} could not be repaired on the forge: {error.message}")
        return
    ledger = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(ledger, noticed=()))


def _text(app: App, world: World, state: TaskState, issue: Issue) -> Iterator[str]:
    """Restore our text of a published issue, which is derived from its plan."""
    title, body = own_words(app, world, state)
    if adopted_source(issue.title, issue.body) == adopted_source(title, body):
        return
    ours = text_digest(title, body)
    if text_digest(issue.title, issue.body) == ours:
        put_current(app, issue.number, issue.body, body)
        return
    app.forge().edit_issue(state.issue_number, title=title, body=body)
    ledger = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(ledger, text=ours))
    yield "its title and text were put back to what is approved"


def _comment(app: App, world: World, state: TaskState) -> Iterator[str]:
    """Post the newest event's question again if it was deleted; earlier comments stay deleted."""
    if not is_question_deleted(app, state):
        return
    ledger = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(ledger, sequence=state.sequence - 1))
    deliver(app, world, state.issue_number)
    yield "the comment that asks something was posted again"


def _brief(app: App, world: World, state: TaskState) -> Iterator[AuditFinding]:
    before = app.projections.read("brief", state.issue_number)
    write_brief(app, world, state)
    after = app.projections.read("brief", state.issue_number)
    if before is None and after is not None:
        yield AuditFinding(f"issue-{state.issue_number}", "its brief was made again")
    elif before is not None and (missing := _sections(after or "") - _sections(before)):
        yield AuditFinding(f"issue-{state.issue_number}", f"its brief lacked: {', '.join(sorted(missing))}")


def _sections(brief: str) -> set[str]:
    return {line.removeprefix("## ") for line in brief.splitlines() if line.startswith("## ")}


# --- Restoring the log of an issue from its comments


LOCAL: Final = "local events"


@dataclass(frozen=True, slots=True)
class Restoration:
    """Where the events of one issue came from. `problems` are unusable blocks in its comments."""

    issue_number: int
    source: str
    events: int
    missing: tuple[int, ...] = ()
    diverging: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()
    distrusted: int = 0
    """The number of comments with events by authors without write access."""

    @property
    def is_local(self) -> bool:
        """Whether the issue has a log here, which is the primary source: then no other was read."""
        return self.source == LOCAL

    @property
    def sound(self) -> bool:
        """Whether all its events are there without contradictions."""
        return bool(self.events) and not (self.missing or self.problems)


def restore(app: App, issue_number: int) -> Restoration:
    """Find the events of this issue, and write them to the log if it has none. The caller holds the driver lock.

    If events are missing or the comments contradict each other, a gap event comes last. Raises RemoteFailed.
    """
    local = app.log.read(issue_number)
    if local.highest_sequence:
        return Restoration(issue_number, LOCAL, len(local.records), problems=local.problems)
    comments = app.forge().comments(issue_number) if app.forge().read_issue(issue_number) else ()
    read = [(comment, app.log.read_text(comment.body, comment.url, issue_number)) for comment in comments]
    telling = [(comment, found) for comment, found in read if found.records or found.problems]
    trusted = [(comment, found) for comment, found in telling if comment.ours or comment.trusted]
    problems = tuple(problem for _, found in trusted for problem in found.problems)
    found = restored([tuple(_marked(comment, stream.records)) for comment, stream in trusted])
    told = Restoration(issue_number, "nothing", 0, problems=problems, distrusted=len(telling) - len(trusted))
    if found is None or any(problem.newer for problem in problems):
        return told
    _write(app, issue_number, found)
    return replace(
        told, source=found.source, events=len(found.records), missing=found.missing, diverging=found.diverging
    )


def _marked(comment: Comment, records: Iterable[Record[IssueEvent]]) -> Iterator[Record[IssueEvent]]:
    meta = {"restored_from": comment.url}
    return (Record(record.event, meta) for record in records)


def _write(app: App, issue_number: int, found: RestoredStream) -> None:
    """Write the ledger first: comments posted by an older tool are not posted again, but the gap is reported."""
    said = max(record.event.sequence for record in found.records if not isinstance(record.event, SequenceGapDetected))
    app.deliveries.save(issue_number, EffectLedger(said))
    origin = app.origin.meta()
    app.log.restore(issue_number, [Record(record.event, {**origin, **record.meta}) for record in found.records])
    app.repository.mark_history()


# --- Comparing the log with itself and with the forge


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was found and recorded. `open_questions` is everything that waits for a user."""

    restored: tuple[Restoration, ...]
    gaps: tuple[int, ...]
    settled: tuple[tuple[int, str], ...]
    """What happened to pull requests, by issue number, as text."""
    outside: tuple[AuditFinding, ...]
    approved_again: tuple[int, ...]
    undelivered: tuple[str, ...]
    open_questions: tuple[Question, ...]
    problems: tuple[str, ...]
    unseen: tuple[int, ...] = ()
    """Issues missing while the forge shows none: a user says whether it is the wrong forge or they are gone."""

    @property
    def pending_acceptance(self) -> tuple[Question, ...]:
        """The open questions that wait for acceptance (contract, reconcile)."""
        return tuple(question for question in self.open_questions if question.reason == "pending_acceptance")


def reconcile(app: App, issue_number: int | None = None) -> Reconciliation:
    """Restore lost logs, record gaps and changes on the forge, deliver what is due, and render the briefs again.

    With *issue_number*, only that issue's log is restored from its comments, if it has none; otherwise those of all
    open issues with our labels. The caller holds the driver lock. Never marks anything done.
    """
    restored = tuple(_restored(app, issue_number))
    world = read_world(app)
    gaps = tuple(number for number, replay in world.replays.items() if _record_gap(app, number, replay))
    _delivered(app, world)  # first: effects of ours that are still due look like changes by others
    fetch_targets(app, world, world.states.values())
    settled = settle_requests(app, read_world(app))  # their merge closes issues, which is no close from outside
    outside = look_outside(app, read_world(app), issue_number)
    approved = release_approved(app, read_world(app))
    failures = _delivered(app, world)
    world = read_world(app)
    for state in world.states.values():
        write_projections(app, world, state)
    show_runs(app, world, world.states.values())
    app.repository.back_up()
    return Reconciliation(
        restored,
        gaps,
        tuple((s.issue_number, say_issue_event(app.log.read(s.issue_number).records[-1])) for s in settled),
        outside.changes,
        approved,
        failures,
        tuple(questions_of_issues(world)),
        tuple(_problems(world, restored, outside.unseen)),
        outside.unseen,
    )


def _delivered(app: App, world: World) -> tuple[str, ...]:
    """Deliver everything that is due; returns what could not be delivered."""
    return tuple(failure for number in app.log.streams() for failure in deliver(app, world, number).failures)


def _restored(app: App, issue_number: int | None) -> Iterator[Restoration]:
    """The restorations of issues without events here; that of *issue_number* whatever its result."""
    try:
        wanted = [issue_number] if issue_number else sorted(_without_events(app))
        found = [restore(app, number) for number in wanted]
    except RemoteFailed as error:
        app.progress.note(f"the comments could not be read: {error.message}")
        return
    yield from (one for one in found if issue_number or one.events or one.problems)


def _without_events(app: App) -> set[int]:
    """Open issues that carry our labels and have no log here."""
    known = {*app.log.streams()}
    labelled = (app.forge().open_issues(label) for label in sorted(MANAGED | {ADOPTED}))
    return {issue.number for issues in labelled for issue in issues} - known


def _record_gap(app: App, number: int, replay: Replay) -> bool:
    """Record one gap event per set of missing sequences (R13); none over events by a newer version."""
    if not replay.missing or replay.state is None:
        return False
    stream = app.log.read(number)
    found = (record.event.sequence for record in stream.records)
    event = gap_event(replay.state, stream.highest_sequence + 1, found, replay.missing)
    app.log.append(event, expected_sequence=stream.highest_sequence, meta=app.origin.meta())
    return True


def not_seen(numbers: tuple[int, ...]) -> tuple[str, str]:
    """The message and remedy for issues of which the forge shows none."""
    first = f"irontree checkup reconcile issue-{numbers[0]}"
    remedy = (
        "if it is another forge or account, correct that; `irontree init --from-backup` brings back issues of the "
        f"local forge that were backed up; if they are gone for good, confirm it for each: `{first}` asks how to go on"
    )
    return f"none of its {len(numbers)} issues can be seen", remedy


def _problems(world: World, restored: Iterable[Restoration], unseen: tuple[int, ...]) -> Iterator[str]:
    if unseen:
        what, remedy = not_seen(unseen)
        yield f"forge: {what} -> {remedy}"
    yield from (f"{problem.path}: {problem.what}" for problem in world.problems)
    yield from (f"issue-{n}: {replay.problem}" for n, replay in world.replays.items() if replay.problem)
    yield from (f"{problem.path}: {problem.what}" for one in restored for problem in one.problems)


# --- Removing old transcripts


LONG: Final = ("output.log", "prompt.md")
"""Large files in the folder of an agent; its small `result.json` holds how it ended and what it used."""


def drop_old_transcripts(app: App) -> tuple[str, ...]:
    """Remove the transcripts of issues done more than `automations.keep_transcripts_days` days ago.

    Returns the files, relative to the repository; none if the setting is 0, or if the log does not say when.
    """
    days = app.preferences().automations.keep_transcripts_days
    if not days:
        return ()
    before = app.clock.now() - timedelta(days=days)
    root = app.repository.root
    found = (file for number in _done_before(app, before) for file in _transcripts(app, number))
    files = tuple(str(file.relative_to(root)) for file in found)
    for file in files:
        remove_beneath(root, file)
    return files


def _done_before(app: App, limit: datetime) -> Iterator[int]:
    for number, replay in read_world(app).replays.items():
        if replay.state and replay.state.done:
            done_at = moment(time_of(app.log.read(number).records[-1]))
            if done_at and done_at < limit:
                yield number


def _transcripts(app: App, number: int) -> Iterator[Path]:
    """Those of its stream and of earlier ones; what is elsewhere or behind a link, an agent has put there."""
    kept = reports(app) / f"issue-{number}"
    for stream in (kept, *kept.glob("issue-*")):
        for folder in filter(is_folder, (*stream.glob("attempt-*"), *stream.glob("reviews-*/*/*"))):
            yield from (folder / name for name in LONG if (folder / name).is_file())
