"""Look-ups in one issue's records that several texts need."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.events import IssueEvent, Record, Reported
from irontree.domain.results import CheckReport
from irontree.errors import LogDamaged
from irontree.ports import Stream


def last_of(stream: Stream, *events: str) -> Record[IssueEvent] | None:
    """The newest record of one of these events; None if there is none."""
    return next((record for record in reversed(stream.records) if record.event.event in events), None)


def time_of(record: Record[IssueEvent] | None) -> str:
    """When it was recorded, as the log says; empty if it does not."""
    return str(record.meta.get("time", "")) if record else ""


def request_url_of(stream: Stream) -> str:
    """Where the request is whose merge would accept the work; empty if the newest event proposes none."""
    return str(stream.records[-1].meta.get("request_url", "")) if stream.records else ""


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
