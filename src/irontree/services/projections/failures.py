"""Why something failed, as briefs, prompts and forms show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import TaskState
from irontree.ports import Stream
from irontree.services.projections.history import last_of, results_at, time_of
from irontree.services.projections.views import FailureView

_NOT_PUBLISHED: Final = {
    "verify_publication_failed": "publication",
    "checkup_accept_publication_failed": "checkup accept publication",
}
"""Events after which only publication is left, and what the brief calls what failed."""


def failure_of(app: App, stream: Stream, state: TaskState) -> FailureView | None:
    """The failure whose context the next attempt gets: check output, git's refusal, or a person's note."""
    record = next((r for r in stream.records if r.event.sequence == state.failure_sequence), None)
    if record is None:
        return None
    event = record.event
    anchor = getattr(event, "verify_anchor_sha", None)
    report = results_at(app, state.issue_number, anchor)
    check = report.failed if report else None
    note = str(record.meta.get("note", "")) or _note_since(stream, event.sequence)
    return FailureView(
        failed_check=_what_failed(record, check.shown if check else ""),
        anchor=anchor,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome=event.pass_fail_outcome or "commit refused",
        captured_at=time_of(record),
        output=check.output if check else str(record.meta.get("output", "")),
        note=note,
        said=_said_by_who_gave_up(stream, event.sequence),
    )


def _note_since(stream: Stream, sequence: int) -> str:
    """What the person wrote who last let the work go on behind the event with that *sequence*."""
    later = (record for record in reversed(stream.records) if record.event.sequence > sequence)
    cleared = next((record for record in later if record.event.event == "checkup_unblocked"), None)
    return str(cleared.meta.get("note", "")) if cleared else ""


def claims_failure(completed: Record[IssueEvent]) -> bool:
    """Whether the agent of a completed attempt says itself that it did not do what was asked."""
    agent = completed.meta.get("agent")
    return isinstance(agent, Mapping) and str(agent.get("claims_success")).lower() == "false"


def _said_by_who_gave_up(stream: Stream, before: int) -> str:
    """The last words of the agent whose attempt the event with the sequence *before* is about."""
    earlier = (record for record in reversed(stream.records) if record.event.sequence < before)
    completed = next((record for record in earlier if record.event.event == "run_completed"), None)
    return str(completed.meta.get("summary", "")) if completed and claims_failure(completed) else ""


def publication_failure_of(stream: Stream) -> FailureView | None:
    """Why the newest verification or acceptance could not be published; None if it is not that which is left to do.

    The next attempt is never told: its code is fine (contract, outcome E).
    """
    record = stream.records[-1] if stream.records else None
    if record is None or record.event.event not in _NOT_PUBLISHED:
        return None
    event = record.event
    verified = last_of(stream, "verify_publication_failed", "verify_pending_acceptance")
    return FailureView(
        failed_check=_NOT_PUBLISHED[event.event],
        anchor=getattr(verified.event, "verify_anchor_sha", None) if verified else None,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome="publication_failed",
        captured_at=time_of(record),
        output=str(record.meta.get("reason", "")),
    )


def _what_failed(record: Record[IssueEvent], check: str) -> str:
    if record.event.event == "run_commit_failed":
        return "git commit"
    otherwise = "sent back by a person" if record.meta.get("note") else "verification"
    return check or str(record.meta.get("failed_check") or otherwise)
