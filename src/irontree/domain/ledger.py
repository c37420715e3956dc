"""What is left of a budget by what agents took, and what people allowed beyond it (protocol, Budgets)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

from irontree.domain.budgets import SCOPES, Amount, BudgetPolicy, BudgetScope, Limits, Unit, amount_of, said
from irontree.domain.moments import moment

if TYPE_CHECKING:
    from irontree.domain.spending import Spending


@dataclass(frozen=True, slots=True)
class Extension:
    """What a person allowed beyond a limit, and how many unreadable figures they let pass with it."""

    scope: BudgetScope
    unit: Unit
    extra: int
    unread: int = 0
    issue_number: int | None = None
    loop_id: str = ""
    day: str = ""

    def as_meta(self) -> dict[str, Any]:
        """The keys of `meta.budget`; the loop is the one whose log it is in."""
        known = {"issue": self.issue_number, "day": self.day, "unread": self.unread}
        given = {key: value for key, value in known.items() if value}
        return {"scope": self.scope, "unit": self.unit, "extra": said(self.unit, self.extra), **given}


def extension_from(meta: object, loop_id: str) -> Extension | None:
    """The extension in `meta.budget` of an event of that loop; None for all else: what is unclear allows nothing."""
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


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit with what is spent of it, in parts of its unit. `unread`: agents of which that is not known."""

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
    """When a new one begins by itself (ISO 8601, UTC); empty for all but that of a day."""

    @property
    def over(self) -> bool:
        """Whether no agent may be called any more; what cannot be read is taken for too much."""
        return self.unread > 0 or self.spent >= self.limit

    @property
    def left(self) -> int:
        """How much may still be spent."""
        return max(0, self.limit - self.spent)

    @property
    def warns(self) -> bool:
        """Whether four fifths of it are spent."""
        return self.over or self.spent * 5 >= self.limit * 4

    @property
    def whose(self) -> str:
        """Whose budget it is, for people."""
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
        """What is spent of it and what is left, or why that cannot be told."""
        if self.unread:
            return f"{self.whose}: {self.unknown} does not say how much {_OF[self.unit]} it took, and it has a limit"
        spent, limit = said(self.unit, self.spent), said(self.unit, self.limit)
        left = f"{said(self.unit, self.left)} left" if self.left else "nothing left"
        return f"{self.whose}: {spent} of {limit} spent, {left}"

    def extended(self, amount: Amount) -> Extension:
        """What allowing so much more of it is in the log."""
        return Extension(self.scope, self.unit, amount.parts, self.unread, self.issue_number, self.loop_id, self.day)


_OF: Final[Mapping[Unit, str]] = {"money": "money", "tokens": "of tokens", "time": "time"}


@dataclass(frozen=True, slots=True)
class Counted:
    """The loop that attempts count for: its issues, and since when."""

    loop_id: str
    since: str
    issues: Collection[int]


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that agents took in one repository, and what was allowed beyond the limits."""

    spendings: tuple[Spending, ...] = ()
    extensions: tuple[Extension, ...] = ()
    by_issue: Mapping[int, tuple[Spending, ...]] = field(default_factory=dict)

    def of_issue(self, policy: BudgetPolicy, issue_number: int) -> tuple[Budget, ...]:
        """The limits of each attempt at that issue, and of all of it."""
        own = self.by_issue.get(issue_number, ())
        runs = tuple(spending for spending in own if spending.run)
        attempt = self._budgets(policy.attempt, Budget("attempt", "money", 0, 0, issue_number=issue_number), runs)
        return (*attempt, *self._budgets(policy.issue, Budget("issue", "money", 0, 0, issue_number=issue_number), own))

    def of_loop(self, policy: BudgetPolicy, loop: Counted) -> tuple[Budget, ...]:
        """The limits of that loop; what was spent on its issues before it began is none of its."""
        since = moment(loop.since)
        counted = tuple(s for s in self.spendings if s.issue_number in loop.issues and not _before(s, since))
        return self._budgets(policy.loop, Budget("loop", "money", 0, 0, loop_id=loop.loop_id), counted)

    def of_day(self, policy: BudgetPolicy, today: date, zone: tzinfo) -> tuple[Budget, ...]:
        """The limits of that day in *zone*, over everything that is worked on in the repository."""
        counted = tuple(spending for spending in self.spendings if _is_of(spending, today, zone))
        bare = Budget("day", "money", 0, 0, day=today.isoformat(), until=_end_of(today, zone))
        return self._budgets(policy.day, bare, counted)

    def _budgets(self, limits: Limits, bare: Budget, counted: tuple[Spending, ...]) -> tuple[Budget, ...]:
        return tuple(
            self._budget(replace(bare, unit=unit, limit=limits.of(unit) or 0), counted) for unit in limits.units
        )

    def _budget(self, bare: Budget, counted: tuple[Spending, ...]) -> Budget:
        """An attempt's figure is that of the newest one; of the others it counts only whether they could be read."""
        allowed = [extension for extension in self.extensions if _extends(extension, bare)]
        unread = [spending for spending in counted if spending.of(bare.unit) is None]
        last = max(counted, key=lambda spending: (spending.latest or spending.at, spending.run), default=None)
        summed = (last,) if bare.scope == "attempt" and last else counted
        return replace(
            bare,
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
    """Whether it was surely recorded before then; what has no time counts."""
    times = [time for time in map(moment, (spending.at, spending.latest)) if time]
    return moment(spending.at) is not None and since is not None and max(times) < since


def _is_of(spending: Spending, day: date, zone: tzinfo) -> bool:
    at = moment(spending.at)
    return at is None or at.astimezone(zone).date() == day


def _end_of(day: date, zone: tzinfo) -> str:
    midnight = datetime.combine(day + timedelta(days=1), time(), zone)
    return midnight.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ledger_of(spendings: Iterable[Spending], extensions: Iterable[Extension]) -> Ledger:
    """The ledger of these, in any order."""
    by_issue: dict[int, list[Spending]] = {}
    found = tuple(spendings)
    for spending in found:
        by_issue.setdefault(spending.issue_number, []).append(spending)
    return Ledger(found, tuple(extensions), {number: tuple(own) for number, own in by_issue.items()})
