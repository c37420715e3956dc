"""Stops an agent that takes more than it may, as far as it says what it takes while it works (protocol, Budgets)."""

from __future__ import annotations

from collections.abc import Callable

from irontree.domain.allowance import Allowance
from irontree.domain.attempt import Usage
from irontree.domain.budgets import MILLIONTHS
from irontree.ports import Cancellation

Add = Callable[[Usage, str], Usage]
"""What is taken by now, from what was taken before and one more line of output."""


def says_nothing(usage: Usage, _line: str) -> Usage:
    """Of a program that says what it took at its end, if at all."""
    return usage


class Tally:
    """What a program has taken by now."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self.usage = Usage()

    def hear(self, line: bytes) -> None:
        """Take one line of its output."""
        self.usage = self._add(self.usage, line.decode("utf-8", "replace"))


class Meter:
    """A cancellation: that of the caller, and one of its own once the allowance is used up.

    `exceeded` says that it was its own.
    """

    def __init__(self, allowance: Allowance, cancel: Cancellation, taken: Callable[[], Usage]) -> None:
        """Look at *taken* whenever somebody asks whether to stop."""
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
