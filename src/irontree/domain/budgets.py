"""Budgets of agents: money, tokens and time, for an attempt, an issue, a loop and a day (protocol, Budgets).

Amounts are whole numbers, so that no sum depends on its order: millionths of a US dollar, tokens, milliseconds.
Users read and write them as text: `2.50 USD`, `500000 tokens`, `1h 30m`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, Literal, NamedTuple, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationInfo, field_validator

from irontree.domain.values import FROM_FILE, Section

Unit = Literal["money", "tokens", "time"]
BudgetScope = Literal["attempt", "issue", "loop", "day"]
UNITS: Final[tuple[Unit, ...]] = ("money", "tokens", "time")
SCOPES: Final[tuple[BudgetScope, ...]] = ("attempt", "issue", "loop", "day")
EXAMPLES: Final[Mapping[Unit, str]] = {"money": "5 USD", "tokens": "200000 tokens", "time": "2h"}
"""How an amount of each unit is written."""
MILLIONTHS: Final = 1_000_000
MOST_BELIEVED: Final = 10**15
"""The largest figure accepted from an agent's report; a larger one is not believed."""
UNREPORTED: Final[Mapping[str, frozenset[Unit]]] = {
    "command": frozenset({"money", "tokens"}),
    "codex": frozenset({"money"}),
    "gemini": frozenset({"money"}),
    "copilot": frozenset({"money", "tokens"}),
    "mini-swe-agent": frozenset({"tokens"}),
}
"""Units that the programs behind these adapters never report; time is always measured."""

_MONEY: Final = r"(?:USD|\$)?\s*(\d{1,9}(?:\.\d{1,6})?)\s*(?:USD)?"
_TOKENS: Final = r"(\d{1,15})\s*(?:tokens?)?"
_TIME: Final = r"(?=\d)(?:(\d{1,5})\s*h)?\s*(?:(\d{1,7})\s*m(?:in)?)?\s*(?:(\d{1,9})\s*s)?"


class Amount(NamedTuple):
    """A quantity of a unit, in its smallest parts."""

    unit: Unit
    parts: int

    def __str__(self) -> str:
        """The amount as users write it; `amount_of` reads it back."""
        return amount_text(self.unit, self.parts)


def measure(unit: Unit, text: object) -> int:
    """Parse *text* into parts; raises ValueError if it is not an amount of that unit."""
    parts = _READERS[unit](str(text).strip())
    if not parts:
        raise ValueError(f"expected an amount such as `{EXAMPLES[unit]}`")
    return parts


def amount_of(text: str) -> Amount | None:
    """The amount in *text*, which has to name its unit; `None` for a bare number and for anything else."""
    if not re.search(r"[a-z$]", text, re.IGNORECASE):
        return None
    found = (Amount(unit, _READERS[unit](text.strip())) for unit in UNITS)
    return next((amount for amount in found if amount.parts), None)


def leading_amount(text: str) -> str:
    """The amount at the beginning of *text*, as written there; empty if there is none."""
    found = re.match(r"\S+(?: +\S+){0,2}", text)
    ends = [match.end() for match in re.finditer(r"\S+", found[0])] if found else []
    return next((text[:end] for end in reversed(ends) if amount_of(text[:end])), "")


def amount_text(unit: Unit, parts: int) -> str:
    """Format that many parts of the unit for users; fractions of a second are rounded up."""
    match unit:
        case "money":
            whole, _, fraction = f"{Decimal(parts) / MILLIONTHS:.6f}".partition(".")
            return f"{whole}.{fraction.rstrip('0'):0<2} USD"
        case "tokens":
            return f"{parts} tokens"
        case "time":
            return spoken_time(-(-parts // 1000))


def spoken_time(seconds: int) -> str:
    """`1h 2m 3s`, without what is none."""
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    shown = (f"{number}{letter}" for number, letter in ((hours, "h"), (minutes, "m"), (rest, "s")) if number)
    return " ".join(shown) or "0s"


def _money(text: str) -> int:
    found = re.fullmatch(_MONEY, text, re.IGNORECASE)
    return int(Decimal(found[1]) * MILLIONTHS) if found else 0


def _tokens(text: str) -> int:
    found = re.fullmatch(_TOKENS, text, re.IGNORECASE)
    return int(found[1]) if found else 0


def _time(text: str) -> int:
    found = re.fullmatch(_TIME, text, re.IGNORECASE)
    if not found:
        return 0
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (hours * 3600 + minutes * 60 + seconds) * 1000


_READERS: Final[Mapping[Unit, Callable[[str], int]]] = {"money": _money, "tokens": _tokens, "time": _time}


class SpendingLimits(Section):
    """How much of each may be spent. Unset: as much as it takes."""

    money: str | float | None = Field(default=None, description="In US dollars, as agents report it: `2.50 USD`.")
    tokens: str | int | None = Field(default=None, description="Taken and given, together.")
    time: str | None = Field(default=None, description="Of the agents, while they work: `2h`, `1h 30m`.")

    @field_validator("money", "tokens", "time", mode="before")
    @classmethod
    def _an_amount(cls, value: object, info: ValidationInfo) -> object:
        """As people write it, so that equal ones have equal digests; what the file says stays as it is."""
        if value is None:
            return None
        unit = cast("Unit", info.field_name)
        parts = measure(unit, value)
        return value if info.context == FROM_FILE else amount_text(unit, parts)

    def of(self, unit: Unit) -> int | None:
        """The limit in parts of that unit."""
        text: object = getattr(self, unit)
        return None if text is None else measure(unit, text)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that have a limit."""
        return tuple(unit for unit in UNITS if getattr(self, unit) is not None)

    def __str__(self) -> str:
        """All limits, as people read them."""
        return ", ".join(str(getattr(self, unit)) for unit in self.units)


# Not validated: what validates a class is made with its first value, and most commands need none of this one.
_UNLIMITED: Final = SpendingLimits.model_construct()


class BudgetPolicy(Section):
    """What coding agents, reviewers and planners may take before a person is asked."""

    attempt: SpendingLimits = Field(
        default=_UNLIMITED, description="One attempt at an issue; stopped there if that can be seen."
    )
    issue: SpendingLimits = Field(default=_UNLIMITED, description="All attempts and reviews of an issue.")
    loop: SpendingLimits = Field(default=_UNLIMITED, description="All issues of a loop.")
    day: SpendingLimits = Field(default=_UNLIMITED, description="All of this repository in a day.")
    time_zone: str = Field(default="UTC", description="Where the day begins, such as `Europe/Vienna`.")

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str, info: ValidationInfo) -> str:
        """A zone that the file names is known here; a plan can be read where it is not."""
        if info.context != FROM_FILE:
            return name
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("expected a time zone such as `Europe/Vienna` or `UTC`") from error
        return name

    def limits(self, scope: BudgetScope) -> SpendingLimits:
        """Those of that scope."""
        found: SpendingLimits = getattr(self, scope)
        return found

    @property
    def units(self) -> frozenset[Unit]:
        """The units that have a limit anywhere."""
        return frozenset(unit for scope in SCOPES for unit in self.limits(scope).units)

    def __str__(self) -> str:
        """All of them in one line, as an approval shows them."""
        zone = {"day": f" ({self.time_zone})"}
        return "; ".join(
            f"each {scope}{zone.get(scope, '')}: {self.limits(scope)}" for scope in SCOPES if self.limits(scope).units
        ).replace("each loop", "the loop")


def approved_budgets(values: Mapping[str, object]) -> BudgetPolicy | None:
    """The budget policy of these settings, each amount in canonical form; `None` if nothing has a limit."""
    found = BudgetPolicy.model_validate(values)
    return found if found.units else None


def unreadable(budgets: BudgetPolicy | None, adapter: str) -> tuple[Unit, ...]:
    """The limited units whose use an agent behind *adapter* never reports (fails closed)."""
    limited = budgets.units if budgets else frozenset[Unit]()
    return tuple(unit for unit in UNITS if unit in limited and unit in UNREPORTED.get(adapter, ()))


# --- Limits of one attempt (protocol, Budgets)


class Allowance(NamedTuple):
    """Limits for the next attempt, in parts; `None` means unlimited."""

    money: int | None = None
    tokens: int | None = None
    time: int | None = None

    def is_used_up(self, money: int, tokens: int) -> bool:
        """Whether this use reaches a limit; an agent's working time is limited where it is started."""
        return (self.money is not None and money >= self.money) or (self.tokens is not None and tokens >= self.tokens)

    def seconds(self, most: int) -> int:
        """The time limit in whole seconds, at least one and at most *most*."""
        return most if self.time is None else max(1, min(most, -(-self.time // 1000)))
