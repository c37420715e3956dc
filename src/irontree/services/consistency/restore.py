"""Write the log of an issue anew from its comments, where an older tool left the events there and nothing is here.

Order of the sources (protocol, Source Of Truth): the local log; the comment of a finished issue (before 1.12); the
comments of its events (before 1.10). Only what we or people with write access wrote is read (ruling R20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record, SequenceGapDetected
from irontree.domain.restoration import Restored, restored
from irontree.ports import Comment, DeliveryCursor, Problem

LOCAL: Final = "local events"


@dataclass(frozen=True, slots=True)
class Restoration:
    """Where the events of one issue came from. `problems` are blocks in its comments that cannot be used."""

    issue_number: int
    source: str
    events: int
    missing: tuple[int, ...] = ()
    diverging: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()
    distrusted: int = 0
    """Comments with events by people whose word does not count."""

    @property
    def is_local(self) -> bool:
        """Whether the issue has a log here, which is the primary source: nothing else was looked at."""
        return self.source == LOCAL

    @property
    def sound(self) -> bool:
        """Whether all of it is there, and nothing contradicts itself."""
        return bool(self.events) and not (self.missing or self.problems)


def restore(app: App, issue_number: int) -> Restoration:
    """Say where the events of this issue are; write them to the log if it has none. The caller holds the driver lock.

    A gap event stands last where something is missing, or the comments contradict each other. Raises RemoteFailed.
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


def _write(app: App, issue_number: int, found: Restored) -> None:
    """The cursor first: what an older tool has said in comments is not said again, but the gap is."""
    said = max(record.event.sequence for record in found.records if not isinstance(record.event, SequenceGapDetected))
    app.deliveries.save(issue_number, DeliveryCursor(said))
    origin = app.origin.meta()
    app.log.restore(issue_number, [Record(record.event, {**origin, **record.meta}) for record in found.records])
    app.repository.mark_history()
