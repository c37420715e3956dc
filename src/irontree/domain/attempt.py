"""What an attempt of a coding agent came to: claims and observations in, an outcome out (product claim 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FailureClass = Literal["rate_limited", "not_authenticated", "refused", "unreachable", "limit_reached"]
Ended = Literal["exited", "timeout", "stalled", "cancelled", "not_started"]


@dataclass(frozen=True, slots=True)
class Claim:
    """An agent's terminal record: what it says of its own work, never a fact.

    `ok` None: it left words and no judgement. `kind` is the record's own name for its end (`success`, `turn.failed`,
    `end_turn`); `words` are its last ones.
    """

    ok: bool | None
    kind: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt took, as far as the agent says: tokens, and money in US dollars."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
