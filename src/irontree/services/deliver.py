"""Bring the forge to what the log says: labels, comments, closing (ruling R9). Never stops the work.

The cursor moves behind the effects, so a crash repeats them, and they are made to be: an effect that is there is
left alone. What failed is tried again next time.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Literal

from irontree.app import App
from irontree.domain.events import CATEGORY, CheckupUnblocked, ExternalCloseDetected, IssueEvent, Record
from irontree.domain.evolve import evolve, replay
from irontree.domain.labels import COLORS, MANAGED, labels_for
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.errors import ConfigRefused, EnvironmentRefused, IllegalTransition, RemoteFailed
from irontree.ports import DeliveryCursor, Label, Stream
from irontree.services.comment import comment_for
from irontree.services.world import read_world


def deliver(app: App, issue_number: int) -> DeliveryCursor:
    """Deliver what is due for this issue and return the cursor. The caller holds the driver lock."""
    stream, cursor = app.log.read(issue_number), app.deliveries.load(issue_number)
    state = replay(stream.records, highest_sequence=stream.highest_sequence).state
    if state is None or (cursor.sequence >= stream.last_sequence and not cursor.failures):
        return cursor
    reached, failure = _post_comments(app, stream, cursor.sequence)
    unsure = cursor.sequence == 0 or bool(cursor.failures)
    opened_at = _opened_again_at(stream)
    not_opened = _attempt(lambda: _reopen(app, state)) if opened_at > cursor.sequence else None
    if not_opened:
        reached = min(reached, opened_at - 1)
    outcomes = (
        failure,
        not_opened,
        _attempt(lambda: _set_labels(app, state, ensure=unsure)),
        _attempt(lambda: _close(app, state)),
    )
    now = DeliveryCursor(reached, tuple(message for message in outcomes if message))
    app.deliveries.save(issue_number, now)
    return now


def comment_marker(issue_number: int, record: Record[IssueEvent], renewed_from: str = "") -> str:
    """A hidden, opaque line that recognises our comment of this event: neither hex nor an event name (R9)."""
    event = record.event
    name = f"{event.task_key}/{event.approved_revision}/{event.sequence}{renewed_from}"
    digest = hashlib.sha256(name.encode()).digest()
    token = base64.b32encode(digest[:10]).decode().lower()
    return f"<!-- irontree:{issue_number}:{token} -->"


def _post_comments(app: App, stream: Stream, after: int) -> tuple[int, str | None]:
    """Post what audible events call for, in order; how far it got, and what stopped it."""
    state: TaskState | None = None
    for record in stream.records:
        before = state
        try:
            state = evolve(before, record)
        except IllegalTransition:  # it counts for nothing; a gap event behind it does
            continue
        if record.event.sequence <= after or not _calls_for_comment(before, record.event):
            continue
        failure = _attempt(lambda state=state, record=record: _post(app, state, record))  # type: ignore[misc]
        if failure:
            return record.event.sequence - 1, f"comment_post_failed: {failure}"
    return stream.last_sequence, None


def _calls_for_comment(before: TaskState | None, event: IssueEvent) -> bool:
    """Audible events, but only the first of a row that costs nothing (R12)."""
    repeated = before is not None and before.free_event == event.event
    return CATEGORY[event.event] == "audible" and not repeated


def _post(app: App, state: TaskState, record: Record[IssueEvent]) -> None:
    number, marker = state.issue_number, comment_marker(state.issue_number, record, state.renewed_from)
    if any(comment.ours and marker in comment.body for comment in app.forge().comments(number)):
        return
    app.forge().post_comment(number, comment_for(app, state, record, marker))


def _set_labels(app: App, state: TaskState, *, ensure: bool) -> None:
    """Set what the state calls for; with *ensure*, it is not known yet that all of them exist (contract, labels)."""
    if ensure:
        app.forge().ensure_labels([Label(name, color) for name, color in COLORS.items()])
    wanted = labels_for(state)
    app.forge().set_labels(state.issue_number, add=sorted(wanted), remove=sorted(MANAGED - wanted))


def _close(app: App, state: TaskState) -> None:
    """Close an issue that is done, unless closing is left to a person (contract, Close On Done)."""
    if not state.done or close_on_done(app, read_world(app).nodes.get(state.task_key)) == "manual":
        return
    issue = app.forge().read_issue(state.issue_number)
    if issue and issue.state == "open":
        app.forge().edit_issue(state.issue_number, state="closed")


def _opened_again_at(stream: Stream) -> int:
    """The sequence at which a person let work go on behind the newest closing from outside; 0 if none did.

    The cursor stays before it until the issue is open: once it is behind, a closing is a person's new word.
    """
    events = [record.event for record in stream.records]
    closed = max((event.sequence for event in events if isinstance(event, ExternalCloseDetected)), default=None)
    if closed is None:
        return 0
    went_on = (event.sequence for event in events if isinstance(event, CheckupUnblocked) and event.sequence > closed)
    return next(went_on, 0)


def _reopen(app: App, state: TaskState) -> None:
    """Open an issue again that was closed outside; not one that is done by now."""
    if not state.done:
        app.forge().edit_issue(state.issue_number, state="open")


def close_on_done(app: App, node: PlanNode | None) -> Literal["auto", "manual"]:
    """`issue.close_on_done`: as configured; unset: a bug is closed by a person, everything else by us (contract)."""
    return app.preferences().close_on_done or ("manual" if node and node.type == "bug" else "auto")


def _attempt(effect: Callable[[], None]) -> str | None:
    """Do it; what stood in the way. The configuration names the forge, and a person may be editing it (R9)."""
    try:
        effect()
    except (RemoteFailed, ConfigRefused, EnvironmentRefused) as error:
        return error.message
    return None
