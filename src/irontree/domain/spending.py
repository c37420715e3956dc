"""Agents' spending according to the log, and what it leaves of a budget (protocol, Budgets).

A fold over events: nothing is counted in memory, so a restart, a crash or another machine finds the same figures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from irontree.domain.budgets import (
    MILLIONTHS,
    MOST_BELIEVED,
    SCOPES,
    Amount,
    BudgetPolicy,
    BudgetScope,
    SpendingLimits,
    Unit,
    amount_of,
    amount_text,
)
from irontree.domain.events import IssueEvent, Record
from irontree.domain.ids import attempt_folder
from irontree.domain.meta import ReviewerMeta, Took
from irontree.domain.timestamps import moment, utc_text

_ENDS: Final = frozenset({"run_completed", "run_interrupted", "run_commit_failed"})
_GIVEN_BACK: Final = frozenset({"run_interrupted", "run_commit_failed"})
"""Ends of an attempt that is given back."""


class Spending(NamedTuple):
    """What one call of an agent took, in parts of each unit; `None` if that could not be read.

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
    """For a reviewer: where its rounds are kept below the reports, so that none counts twice."""
    latest: str = ""
    """For an attempt: the latest time in its log by then, so that a clock set back hides it from no limit."""

    def of(self, unit: Unit) -> int | None:
        """What it took of that unit."""
        found: int | None = getattr(self, unit)
        return found


def spendings_of(records: Iterable[Record[IssueEvent]]) -> tuple[Spending, ...]:
    """What the agents took that worked on one issue, regardless of the order of *records*.

    A reviewer is named in every event that repeats its verdict, and counts once.
    """
    ordered = sorted(records, key=lambda record: record.event.sequence)
    folders = _reviews_folders(ordered)
    reviews = {
        (said.name, said.anchor): _review(record, said, folders[record.event.sequence])
        for record, said in _said(ordered)
    }
    return (*_attempts(ordered), *reviews.values())


def _attempts(records: Iterable[Record[IssueEvent]]) -> Iterator[Spending]:
    started: Record[IssueEvent] | None = None
    latest = ""
    for record in records:
        latest = max(latest, record.told.time, key=_order)
        if record.event.event == "run_started":
            started = record
        elif record.event.event in _ENDS:
            yield _attempt(record, started)._replace(latest=latest)
            started = None


def _attempt(ended: Record[IssueEvent], started: Record[IssueEvent] | None) -> Spending:
    """An attempt's spending; one that was cut off counts the time passed at most, and all else is unknown."""
    event, told = ended.event, ended.told
    number = event.attempt_count + (event.event in _GIVEN_BACK)
    run = started.event.sequence if started else event.sequence
    took = taken(told.agent, told.seconds)
    if took["time"] is None and started:
        took["time"] = _passed(started, ended)
    return Spending(
        event.issue_number, f"attempt {number}", told.time, run, took["money"], took["tokens"], took["time"]
    )


def _order(time_in_log: str) -> datetime:
    """A sort key by time; an unreadable time comes first."""
    return moment(time_in_log) or datetime.min.replace(tzinfo=UTC)


def _said(records: Iterable[Record[IssueEvent]]) -> Iterator[tuple[Record[IssueEvent], ReviewerMeta]]:
    for record in reversed(list(records)):  # the first event with a verdict shows when it was given
        yield from ((record, said_of) for said_of in record.told.reviewers)


def _reviews_folders(ordered: Sequence[Record[IssueEvent]]) -> Mapping[int, str]:
    """The folder with the reviews of the attempt that was the newest at each event, by the event's sequence."""
    renewed_from = ordered[0].told.archive_path if ordered else ""
    found, run = dict[int, str](), 0
    for record in ordered:
        run = record.event.sequence if record.event.event == "run_started" else run
        found[record.event.sequence] = attempt_folder(record.event.issue_number, renewed_from, run, "reviews")
    return found


def _review(record: Record[IssueEvent], said_of: ReviewerMeta, folder: str) -> Spending:
    took = taken(said_of, said_of.seconds)
    return review_spending(record.event.issue_number, said_of.name, record.told.time, folder, took)


def review_spending(
    issue_number: int, reviewer: str, at: str, folder: str, took: Mapping[Unit, int | None]
) -> Spending:
    """What that reviewer took after an attempt whose reviews are in *folder*."""
    what, place = f"the review by {reviewer}", f"{folder}/{reviewer}"
    return Spending(issue_number, what, at, 0, took["money"], took["tokens"], took["time"], place)


def taken(agent: Took, seconds: object) -> dict[Unit, int | None]:
    """What an agent's record reports, by unit; for one that was not started, a missing figure is zero.

    Reported figures count even then: an agent may end in the same way as an engine that could not start it.
    """
    missing = 0 if agent.ended == "not_started" else None
    figures = ((agent.cost_usd, MILLIONTHS), (agent.input_tokens, 1), (agent.output_tokens, 1), (seconds, 1000))
    cost, sent, received, lasted = (_parts(missing if given is None else given, scale) for given, scale in figures)
    return {"money": cost, "tokens": None if sent is None or received is None else sent + received, "time": lasted}


def _parts(value: object, scale: int) -> int | None:
    """A figure of the log in parts, rounded up; `None` if it is invalid."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    if not number.is_finite() or not 0 <= number <= MOST_BELIEVED:
        return None
    return -int(-number * scale // 1)


def _passed(started: Record[IssueEvent], ended: Record[IssueEvent]) -> int | None:
    began, over = moment(started.told.time), moment(ended.told.time)
    return max(0, int((over - began) / timedelta(milliseconds=1))) if began and over else None


# --- What is left of a budget after spending and extensions


class Extension(NamedTuple):
    """An allowance beyond a limit, and the number of unreadable figures it waives."""

    scope: BudgetScope
    unit: Unit
    extra: int
    unread: int = 0
    issue_number: int | None = None
    loop_id: str = ""
    day: str = ""

    def as_meta(self) -> dict[str, Any]:
        """The keys of `meta.budget`; the loop is the one whose log holds it."""
        known = {"issue": self.issue_number, "day": self.day, "unread": self.unread}
        given = {key: value for key, value in known.items() if value}
        return {"scope": self.scope, "unit": self.unit, "extra": amount_text(self.unit, self.extra), **given}


def extension_from(meta: object, loop_id: str) -> Extension | None:
    """The extension in `meta.budget` of an event of that loop; `None` otherwise: unclear data allows nothing."""
    if not isinstance(meta, Mapping):
        return None
    scope = next((scope for scope in SCOPES if scope == meta.get("scope")), None)
    amount = amount_of(str(meta.get("extra")))
    numbers = [str(meta.get(key, 0)) for key in ("unread", "issue")]
    if scope is None or amount is None or amount.unit != meta.get("unit") or not all(map(str.isdecimal, numbers)):
        return None
    unread, issue = map(int, numbers)
    day = str(meta.get("day", ""))
    return Extension(scope, amount.unit, amount.parts, unread, issue or None, loop_id if scope == "loop" else "", day)


class Budget(NamedTuple):
    """One limit and its spending, in parts of its unit. `unread` counts the agents whose figure is unknown."""

    scope: BudgetScope
    unit: Unit
    limit: int
    spent: int
    unread: int = 0
    issue_number: int | None = None
    loop_id: str = ""
    day: str = ""
    unknown: str = ""
    """The newest of those whose figure could not be read."""
    until: str = ""
    """When it renews by itself (ISO 8601, UTC); only for a day's budget, else empty."""

    @property
    def over(self) -> bool:
        """Whether no agent may be called any more; an unreadable figure counts as too much."""
        return self.unread > 0 or self.spent >= self.limit

    @property
    def left(self) -> int:
        """How much may still be spent."""
        return max(0, self.limit - self.spent)

    @property
    def warns(self) -> bool:
        """Whether four fifths are spent."""
        return self.over or self.spent * 5 >= self.limit * 4

    @property
    def whose(self) -> str:
        """Whose budget it is, in words."""
        match self.scope:
            case "attempt":
                return f"each attempt of issue-{self.issue_number}"
            case "issue":
                return f"issue-{self.issue_number}"
            case "loop":
                return "this loop"
            case "day":
                return f"the day {self.day}"

    @property
    def words(self) -> str:
        """What is spent and left, or why that is unknown, in words."""
        if self.unread:
            return f"{self.whose}: {self.unknown} does not say how much {_OF[self.unit]} it took, and it has a limit"
        spent, limit = amount_text(self.unit, self.spent), amount_text(self.unit, self.limit)
        left = f"{amount_text(self.unit, self.left)} left" if self.left else "nothing left"
        return f"{self.whose}: {spent} of {limit} spent, {left}"

    def extended(self, amount: Amount) -> Extension:
        """The extension to log for allowing that much more."""
        return Extension(self.scope, self.unit, amount.parts, self.unread, self.issue_number, self.loop_id, self.day)


_OF: Final[Mapping[Unit, str]] = {"money": "money", "tokens": "of tokens", "time": "time"}


@dataclass(frozen=True, slots=True)
class Ledger:
    """All spending in one repository, and the extensions of its limits."""

    spendings: tuple[Spending, ...] = ()
    extensions: tuple[Extension, ...] = ()
    by_issue: Mapping[int, tuple[Spending, ...]] = field(default_factory=dict)

    def of_issue(self, policy: BudgetPolicy, issue_number: int) -> tuple[Budget, ...]:
        """The budgets of that issue: per attempt, and in total."""
        own = self.by_issue.get(issue_number, ())
        runs = tuple(spending for spending in own if spending.run)
        attempt = self._budgets(policy.attempt, Budget("attempt", "money", 0, 0, issue_number=issue_number), runs)
        return (*attempt, *self._budgets(policy.issue, Budget("issue", "money", 0, 0, issue_number=issue_number), own))

    def of_loop(self, policy: BudgetPolicy, loop_id: str, *, began: str, issues: Collection[int]) -> tuple[Budget, ...]:
        """The budgets of that loop; spending on its *issues* before it *began* does not count."""
        since = moment(began)
        counted = tuple(s for s in self.spendings if s.issue_number in issues and not _before(s, since))
        return self._budgets(policy.loop, Budget("loop", "money", 0, 0, loop_id=loop_id), counted)

    def of_day(self, policy: BudgetPolicy, today: date, zone: tzinfo) -> tuple[Budget, ...]:
        """The budgets of that day in *zone*, over all work in the repository."""
        counted = tuple(spending for spending in self.spendings if _is_of(spending, today, zone))
        bare = Budget("day", "money", 0, 0, day=today.isoformat(), until=_end_of(today, zone))
        return self._budgets(policy.day, bare, counted)

    def _budgets(self, limits: SpendingLimits, bare: Budget, counted: tuple[Spending, ...]) -> tuple[Budget, ...]:
        return tuple(
            self._budget(bare._replace(unit=unit, limit=limits.of(unit) or 0), counted) for unit in limits.units
        )

    def _budget(self, bare: Budget, counted: tuple[Spending, ...]) -> Budget:
        """The limit with its spending: per attempt the newest one's only, but unreadable figures of all count."""
        allowed = [extension for extension in self.extensions if _extends(extension, bare)]
        unread = [spending for spending in counted if spending.of(bare.unit) is None]
        last = max(counted, key=lambda spending: (spending.latest or spending.at, spending.run), default=None)
        summed = (last,) if bare.scope == "attempt" and last else counted
        return bare._replace(
            limit=bare.limit + sum(extension.extra for extension in allowed),
            spent=sum(spending.of(bare.unit) or 0 for spending in summed),
            unread=max(0, len(unread) - sum(extension.unread for extension in allowed)),
            unknown=_named(max(unread, key=lambda spending: spending.at)) if unread else "",
        )


def _extends(extension: Extension, budget: Budget) -> bool:
    same = (extension.scope, extension.unit, extension.issue_number) == (budget.scope, budget.unit, budget.issue_number)
    return same and (extension.loop_id, extension.day) == (budget.loop_id, budget.day)


def _named(spending: Spending) -> str:
    return f"{spending.what} of issue-{spending.issue_number}" if spending.issue_number else spending.what


def _before(spending: Spending, since: datetime | None) -> bool:
    """Whether it was certainly recorded before *since*; without a time it was not."""
    times = [time for time in map(moment, (spending.at, spending.latest)) if time]
    return moment(spending.at) is not None and since is not None and max(times) < since


def _is_of(spending: Spending, day: date, zone: tzinfo) -> bool:
    at = moment(spending.at)
    return at is None or at.astimezone(zone).date() == day


def _end_of(day: date, zone: tzinfo) -> str:
    midnight = datetime.combine(day + timedelta(days=1), time(), zone)
    return utc_text(midnight)


def ledger_of(spendings: Iterable[Spending], extensions: Iterable[Extension]) -> Ledger:
    """The ledger of these spendings, in any order."""
    by_issue: dict[int, list[Spending]] = {}
    found = tuple(spendings)
    for spending in found:
        by_issue.setdefault(spending.issue_number, []).append(spending)
    return Ledger(found, tuple(extensions), {number: tuple(own) for number, own in by_issue.items()})
