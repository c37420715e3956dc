"""How much one attempt of an agent may take (protocol, Budgets)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much the next attempt may take, in parts; None: as much as it takes."""

    money: int | None = None
    tokens: int | None = None
    time: int | None = None

    def is_used_up(self, money: int, tokens: int) -> bool:
        """Whether nothing is left of it after so much; how long an agent works is limited where it is started."""
        return (self.money is not None and money >= self.money) or (self.tokens is not None and tokens >= self.tokens)

    def seconds(self, most: int) -> int:
        """The whole seconds that it leaves, one at least and *most* at most."""
        return most if self.time is None else max(1, min(most, -(-self.time // 1000)))
