"""Look-ups in one issue's records that several texts need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record, Reported
from irontree.domain.results import CheckReport
from irontree.domain.state import TaskState
from irontree.errors import LogDamaged
from irontree.ports import Stream
from irontree.services.projections.views import FailureView

_NOT_PUBLISHED: Final = {
    "verify_publication_failed": "publication",
    "checkup_accept_publication_failed": "checkup accept publication",
}
"""Events after which only publication is left, and what the brief calls what failed."""


def last_of(stream: Stream, *events: str) -> Record[IssueEvent] | None:
    """The newest record of one of these events; None if there is none."""
    return next((record for record in reversed(stream.records) if record.event.event in events), None)


def time_of(record: Record[IssueEvent] | None) -> str:
    """When it was recorded, as the log says; empty if it does not."""
    return str(record.meta.get("time", "")) if record else ""


def document_of(event: IssueEvent) -> str | None:
    """The document in which this event says that notes were left; None for any other."""
    return event.promoted_doc if isinstance(event, Reported) else None


def newest_document(stream: Stream) -> str | None:
    """Where the notes of the newest verification that passed are, if it left any."""
    passed = last_of(stream, "verify_passed")
    return document_of(passed.event) if passed else None


def results_at(app: App, issue_number: int, anchor: str | None) -> CheckReport | None:
    """What the checks said at that commit, as far as it can be read: texts do without, `audit` names the file."""
    try:
        return app.results.load(issue_number, anchor) if anchor else None
    except LogDamaged:
        return None


def failure_of(app: App, stream: Stream, state: TaskState) -> FailureView | None:
    """The failure whose context the next attempt gets: check output, git's refusal, or a person's note."""
    record = next((r for r in stream.records if r.event.sequence == state.failure_sequence), None)
    if record is None:
        return None
    event = record.event
    anchor = getattr(event, "verify_anchor_sha", None)
    report = results_at(app, state.issue_number, anchor)
    check = report.failed if report else None
    note = str(record.meta.get("note", ""))
    return FailureView(
        failed_check=_what_failed(event.event, f"$ {check.command}" if check else "", note),
        anchor=anchor,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome=event.pass_fail_outcome or "commit refused",
        captured_at=time_of(record),
        output=check.output if check else str(record.meta.get("output", "")),
        note=note,
        said=_said_by_who_gave_up(stream, event.sequence),
    )


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


def _what_failed(event: str, check: str, note: str) -> str:
    if event == "run_commit_failed":
        return "git commit"
    return check or ("sent back by a person" if note else "verification")
