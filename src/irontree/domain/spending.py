"""What agents took, as the log says (protocol, Budgets); what that leaves of a budget is the ledger's.

A fold over events: nothing is counted in memory, so a restart, a crash or another machine finds the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from irontree.domain.budgets import (
    MILLIONTHS,
    MOST_BELIEVED,
    Unit,
)
from irontree.domain.ids import attempt_folder
from irontree.domain.moments import moment

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent, Record

_ENDS: Final = frozenset({"run_completed", "run_interrupted", "run_commit_failed"})
_GIVEN_BACK: Final = frozenset({"run_interrupted", "run_commit_failed"})
_SCALES: Final = {"cost_usd": MILLIONTHS, "input_tokens": 1, "output_tokens": 1, "seconds": 1000}
"""How many parts one of each figure has, in which it is counted."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What one call of an agent took, in parts of each unit; None: it could not be read.

    `run` is the sequence of run_started for an attempt, 0 for a reviewer or a planner; `at` is when it was recorded.
    """

    issue_number: int
    what: str
    at: str
    run: int = 0
    money: int | None = None
    tokens: int | None = None
    time: int | None = None
    place: str = ""
    """Of a reviewer: where its rounds are kept below the reports, so that none counts twice."""
    latest: str = ""
    """Of an attempt: the latest time in its log by then; a clock that was put back hides it from no limit."""

    def of(self, unit: Unit) -> int | None:
        """What it took of that unit."""
        found: int | None = getattr(self, unit)
        return found


def spendings_of(records: Iterable[Record[IssueEvent]]) -> tuple[Spending, ...]:
    """What the agents took that worked on one issue; the same whatever order the *records* come in.

    A reviewer is named in every event that repeats its verdict, and counts once.
    """
    ordered = sorted(records, key=lambda record: record.event.sequence)
    folders = _attempt_folders(ordered)
    reviews = {
        (str(said.get("name")), str(said.get("anchor"))): _review(record, said, folders[record.event.sequence])
        for record, said in _said(ordered)
    }
    return (*_attempts(ordered), *reviews.values())


def _attempts(records: Iterable[Record[IssueEvent]]) -> Iterator[Spending]:
    started: Record[IssueEvent] | None = None
    latest = ""
    for record in records:
        latest = max(latest, _time(record), key=_order)
        if record.event.event == "run_started":
            started = record
        elif record.event.event in _ENDS:
            yield replace(_attempt(record, started), latest=latest)
            started = None


def _attempt(ended: Record[IssueEvent], started: Record[IssueEvent] | None) -> Spending:
    """One that was cut off says nothing; then its time is what has passed at most, and all else is unknown."""
    event, agent = ended.event, ended.meta.get("agent")
    agent = agent if isinstance(agent, Mapping) else {}
    number = event.attempt_count + (event.event in _GIVEN_BACK)
    run = started.event.sequence if started else event.sequence
    took = taken(agent, ended.meta.get("seconds"))
    if took["time"] is None and started:
        took["time"] = _passed(started, ended)
    at = _time(ended)
    return Spending(event.issue_number, f"attempt {number}", at, run, took["money"], took["tokens"], took["time"])


def _time(record: Record[IssueEvent]) -> str:
    return str(record.meta.get("time", ""))


def _order(time_in_log: str) -> datetime:
    """What is no time comes before all others."""
    return moment(time_in_log) or datetime.min.replace(tzinfo=UTC)


def _said(records: Iterable[Record[IssueEvent]]) -> Iterator[tuple[Record[IssueEvent], Mapping[str, Any]]]:
    for record in reversed(list(records)):  # the first that tells of a verdict tells when it was given
        reviewers = record.meta.get("reviewers")
        for said_of in reviewers if isinstance(reviewers, (list, tuple)) else ():
            if isinstance(said_of, Mapping):
                yield record, said_of


def _attempt_folders(ordered: Sequence[Record[IssueEvent]]) -> Mapping[int, str]:
    """The folder of the attempt that was the newest at each event, by the event's sequence."""
    renewed_from = str(ordered[0].meta.get("archive_path") or "") if ordered else ""
    found, run = dict[int, str](), 0
    for record in ordered:
        run = record.event.sequence if record.event.event == "run_started" else run
        found[record.event.sequence] = attempt_folder(record.event.issue_number, renewed_from, run)
    return found


def _review(record: Record[IssueEvent], said_of: Mapping[str, Any], folder: str) -> Spending:
    name, at = str(said_of.get("name")), _time(record)
    return review_spending(record.event.issue_number, name, at, folder, taken(said_of, said_of.get("seconds")))


def review_spending(
    issue_number: int, reviewer: str, at: str, folder: str, took: Mapping[Unit, int | None]
) -> Spending:
    """What that reviewer took after the attempt with that *folder*."""
    what, place = f"the review by {reviewer}", f"{folder}/review-{reviewer}"
    return Spending(issue_number, what, at, 0, took["money"], took["tokens"], took["time"], place)


def taken(agent: Mapping[str, Any], seconds: object) -> dict[Unit, int | None]:
    """What an agent's record says it took, by unit; of one that was not started, what is missing is nothing.

    Figures count all the same: an agent may end like an engine that could not start it.
    """
    missing = 0 if agent.get("ended") == "not_started" else None
    figures = {**agent, "seconds": seconds}
    given = {key: missing if figures.get(key) is None else figures[key] for key in _SCALES}
    cost, sent, received, lasted = (_parts(given[key], scale) for key, scale in _SCALES.items())
    return {"money": cost, "tokens": None if sent is None or received is None else sent + received, "time": lasted}


def _parts(value: object, scale: int) -> int | None:
    """A figure of the log in parts, rounded up; None for what is none."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    if not number.is_finite() or not 0 <= number <= MOST_BELIEVED:
        return None
    return -int(-number * scale // 1)


def _passed(started: Record[IssueEvent], ended: Record[IssueEvent]) -> int | None:
    began, over = moment(started.meta.get("time")), moment(ended.meta.get("time"))
    return max(0, int((over - began) / timedelta(milliseconds=1))) if began and over else None
