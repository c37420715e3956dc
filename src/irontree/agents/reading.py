"""What the output of an agent program says of the attempt, and of what it has used while it works."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from irontree.domain.attempt import Claim, FailureClass, Usage
from irontree.domain.budgets import MILLIONTHS, MOST_BELIEVED, Allowance
from irontree.ports import Cancellation

JsonRecord = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AgentReading:
    """What was read from the output of one attempt; the fields are those of `AgentResult`."""

    claim: Claim | None = None
    failure: FailureClass | None = None
    retry_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)
    session: str | None = None
    denied: tuple[str, ...] = ()


NO_RECORD: Final = Claim(False, "no terminal record")
"""For a program that normally writes a terminal record and did not: it was killed, interrupted or cut off."""
_UNAVAILABLE, _OVERLOADED = 500, 529
_BY_STATUS: Final[dict[int, FailureClass]] = {
    401: "not_authenticated",
    402: "limit_reached",
    403: "not_authenticated",
    429: "rate_limited",
    _OVERLOADED: "rate_limited",
}
# First match wins. Only what a program marks as an error is looked at, so an agent that writes about a log-in, or
# about a rate limit, is not taken for one that has no access.
_BY_WORDS: Final[Mapping[FailureClass, re.Pattern[str]]] = {
    "rate_limited": re.compile(
        r"\b429\b|rate.?limit|too many requests|quota|usage limit|resource.?exhausted|overloaded", re.IGNORECASE
    ),
    "not_authenticated": re.compile(
        r"\b40[13]\b|unauthori[sz]ed|unauthenticated|authenticat|api.?key|not logged in|log ?in again|/login|sign in|"
        r"no auth|credentials?\b",
        re.IGNORECASE,
    ),
    "refused": re.compile(
        r"usage policy|content.?filter|prohibited.?content|\bsafety\b|\brefus(ed to|al)\b", re.IGNORECASE
    ),
    "limit_reached": re.compile(
        r"max.?turns|turn limit|budget|context.?(window|length)|max.?tokens|credit|step limit", re.IGNORECASE
    ),
    "unreachable": re.compile(
        r"\b5\d\d\b|connection|connect\b|econn|enotfound|timed? ?out|network|unreachable|fetch failed|high demand|"
        r"unavailable|internal.?(server.?)?error|socket",
        re.IGNORECASE,
    ),
}
_WAIT: Final = re.compile(
    r"(?:retry|try again|reset)\w*\s*(?:in|after)[:\s]+((?:[\d.]+\s*(?:d|h|m|s)[a-z]*[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_SPAN: Final = re.compile(r"([\d.]+)\s*(d|h|ms|m|s)", re.IGNORECASE)
_SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
LONGEST_BELIEVED: Final = timedelta(days=8)
"""How far ahead a stated retry time is believed: a little more than a weekly limit."""


def records(lines: Iterable[str]) -> Iterator[JsonRecord]:
    """The JSON objects among the lines; whatever else is printed between them is left out."""
    for line in lines:
        if (record := record_in(line)) is not None:
            yield record


def record_in(line: str) -> JsonRecord | None:
    """The JSON object that the line is, if it is one."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # cut by us as too long, or mixed with another stream
        return None
    return found if isinstance(found, dict) else None


def at(record: object, *path: str) -> Any:
    """What is under these keys, one below the other; None where one is missing: these formats change."""
    for key in path:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def text_at(record: object, *path: str) -> str:
    """The text under these keys; empty where there is none."""
    found = at(record, *path)
    return found if isinstance(found, str) else ""


def number_at(record: object, *path: str) -> int | None:
    """The whole number under these keys; None where there is none that can be meant."""
    return count(at(record, *path))


def count(value: object) -> int | None:
    """How many a program says; None for what is no whole number, less than nothing, or more than can be meant."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MOST_BELIEVED else None


def total(*counts: int | None) -> int | None:
    """The sum of those that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def money(value: object) -> float | None:
    """An amount that a program states; None for what is none: JSON knows `1e999`, and Python's reader `NaN`."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MOST_BELIEVED else None


def figure(text: str) -> float | None:
    """The amount that a program prints, as `money`."""
    try:
        return money(float(text))
    except ValueError:
        return None


def failure_of_status(status: object) -> FailureClass | None:
    """The class of an HTTP status; None for what is no failure of a service."""
    if not isinstance(status, int):
        return None
    return _BY_STATUS.get(status) or ("unreachable" if status >= _UNAVAILABLE else None)


def failure_in(words: str) -> FailureClass | None:
    """The class of what a program calls an error; None for one that is of no class."""
    return next((failure for failure, pattern in _BY_WORDS.items() if pattern.search(words)), None)


def retry_time(words: str, now: datetime) -> datetime | None:
    """The time that `try again in 2 hours 5 minutes`, `Please retry in 34.07s` and the like mean, from *now*."""
    found = _WAIT.search(words)
    if not found:
        return None
    seconds = sum(float(count) * _SECONDS[unit.lower()] for count, unit in _SPAN.findall(found[1]))
    return believed(now + timedelta(seconds=seconds), now)


def from_epoch(seconds: object, now: datetime) -> datetime | None:
    """The time of a Unix timestamp in seconds, if it is one that can be meant."""
    if not isinstance(seconds, (int, float)) or not 0 < seconds < 1e11:  # noqa: PLR2004  (year 5138)
        return None
    return believed(datetime.fromtimestamp(seconds, tz=now.tzinfo), now)


def believed(time: datetime, now: datetime) -> datetime | None:
    """The time, if it is ahead and not absurdly far."""
    return time if now < time <= now + LONGEST_BELIEVED else None


# --- Stopping an agent that exceeds its allowance, as far as it reports its usage while working


UsageCount = Callable[[Usage, str], Usage]
"""The usage so far, from the previous usage and one more line of output."""


def says_nothing(usage: Usage, _line: str) -> Usage:
    """For a program that reports its usage at its end, if at all."""
    return usage


class UsageMeter:
    """A cancellation: that of the caller, and one of its own once the allowance is used up.

    `exceeded` says that it was its own.
    """

    def __init__(self, allowance: Allowance, cancel: Cancellation, taken: Callable[[], Usage]) -> None:
        """Look at *taken* whenever a stop is asked about."""
        self._allowance = allowance
        self._cancel = cancel
        self._taken = taken
        self.exceeded = False

    def is_set(self) -> bool:
        """True once a stop is due."""
        self.exceeded = self.exceeded or _is_used_up(self._allowance, self._taken())
        return self.exceeded or self._cancel.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep at most *timeout* seconds; True at once when a stop is due."""
        return self.is_set() or self._cancel.wait(timeout)


def _is_used_up(allowance: Allowance, usage: Usage) -> bool:
    money = None if usage.cost_usd is None else int(usage.cost_usd * MILLIONTHS)
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return allowance.is_used_up(money or 0, tokens)
