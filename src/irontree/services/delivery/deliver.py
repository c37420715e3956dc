"""Bring the forge to what the log says: labels, comments, closing (ruling R9). Never stops the work.

The cursor moves behind the effects, so a crash repeats them, and they are made to be: an effect that is there is
left alone. What failed is tried again next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from irontree.app import App
from irontree.domain.events import CATEGORY, CheckupUnblocked, ExternalCloseDetected, IssueEvent, Record
from irontree.domain.evolve import evolve
from irontree.domain.external import MERGE_CHECKS, is_given_up
from irontree.domain.labels import COLORS, MANAGED, labels_for
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, IllegalTransition
from irontree.ports import DeliveryCursor, Label, Stream
from irontree.services.delivery.closing import close_where_due, is_closed_by_us
from irontree.services.delivery.comment import comment_for, comment_marker, post_once
from irontree.services.delivery.replies import reply_where_due


def deliver(app: App, issue_number: int) -> DeliveryCursor:
    """Deliver what is due for this issue and return the cursor. The caller holds the driver lock."""
    stream, cursor = app.log.read(issue_number), app.deliveries.load(issue_number)
    state = stream.replayed().state
    if state is None or (cursor.sequence >= stream.last_sequence and not cursor.failures):
        return cursor
    if _is_gone_for_good(app, stream, issue_number):
        now = replace(cursor, sequence=stream.last_sequence, failures=())
        app.deliveries.save(issue_number, now)
        return now
    reached, failure = _post_comments(app, stream, cursor.sequence)
    cursor = reply_where_due(app, state, cursor, reached)
    unsure = cursor.sequence == 0 or bool(cursor.failures)
    opened_at = _opened_again_at(stream)
    not_opened = _attempt(lambda: _reopen(app, state)) if opened_at > cursor.sequence else None
    if not_opened:
        reached = min(reached, opened_at - 1)
    outcomes = (
        failure,
        not_opened,
        _attempt(lambda: _set_labels(app, state, ensure=unsure), "stage_label_sync_failed"),
        _attempt(lambda: close_where_due(app, state)),
    )
    failures = tuple(message for message in outcomes if message)
    closed = cursor.closed or (not failures and is_closed_by_us(app, state))
    now = replace(cursor, sequence=reached, failures=failures, closed=closed)
    app.deliveries.save(issue_number, now)
    return now


def _is_gone_for_good(app: App, stream: Stream, issue_number: int) -> bool:
    """Whether there is nobody to tell: the issue is not there, and a person said that its work goes on without it."""
    if not is_given_up(stream.records):
        return False
    with suppress(*FORGE_FAILED):  # it cannot be said now
        return app.forge().read_issue(issue_number) is None
    return False


def _post_comments(app: App, stream: Stream, after: int) -> tuple[int, str | None]:
    """Post what audible events call for, in order; how far it got, and what stopped it."""
    for state, record in due_comments(stream):
        if record.event.sequence <= after:
            continue
        failure = _attempt(lambda state=state, record=record: _post(app, state, record), "comment_post_failed")  # type: ignore[misc]
        if failure:
            return record.event.sequence - 1, failure
    return stream.last_sequence, None


def due_comments(stream: Stream) -> Iterator[tuple[TaskState, Record[IssueEvent]]]:
    """The events that call for a comment, in order, each with the state after it."""
    state: TaskState | None = None
    for record in stream.records:
        before = state
        try:
            state = evolve(before, record)
        except IllegalTransition:  # it counts for nothing; a gap event behind it does
            continue
        if _calls_for_comment(before, record.event):
            yield state, record


def _calls_for_comment(before: TaskState | None, event: IssueEvent) -> bool:
    """Audible events, but only the first of a row that costs nothing (R12)."""
    repeated = before is not None and before.free_event == event.event
    return CATEGORY[event.event] == "audible" and not repeated


def _post(app: App, state: TaskState, record: Record[IssueEvent]) -> None:
    number, marker = state.issue_number, comment_marker(state.issue_number, record, state.renewed_from)
    post_once(app, number, comment_for(app, state, record, marker), marker)


def _set_labels(app: App, state: TaskState, *, ensure: bool) -> None:
    """Set what the state calls for; with *ensure*, it is not known yet that all of them exist (contract, labels)."""
    if ensure:
        app.forge().ensure_labels([Label(name, color) for name, color in COLORS.items()])
    wanted = labels_for(state)
    app.forge().set_labels(state.issue_number, add=sorted(wanted), remove=sorted(MANAGED - wanted))


def _opened_again_at(stream: Stream) -> int:
    """The sequence at which a person let work go on behind the newest closing by others, a merge too; 0 if none did.

    The cursor stays before it until the issue is open: once it is behind, a closing is a person's new word.
    """
    events = [record.event for record in stream.records]
    closed = max((event.sequence for event in events if _says_closed(event)), default=None)
    if closed is None:
        return 0
    went_on = (event.sequence for event in events if isinstance(event, CheckupUnblocked) and event.sequence > closed)
    return next(went_on, 0)


def _says_closed(event: IssueEvent) -> bool:
    return isinstance(event, ExternalCloseDetected) or getattr(event, "blocking_check", None) in MERGE_CHECKS


def _reopen(app: App, state: TaskState) -> None:
    """Open an issue again that was closed outside; not one that is done by now."""
    if not state.done:
        app.forge().edit_issue(state.issue_number, state="open")


def _attempt(effect: Callable[[], None], failure: str = "") -> str | None:
    """Do it; what stood in the way, behind the contract's word for this *failure*."""
    try:
        effect()
    except FORGE_FAILED as error:
        return f"{failure}: {error.message}" if failure else error.message
    return None
