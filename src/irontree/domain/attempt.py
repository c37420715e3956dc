"""Derive the outcome of a coding agent's attempt from claims and observations (docs/explanation/done.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

FailureClass = Literal[
    "rate_limited", "not_authenticated", "refused", "unreachable", "limit_reached", "own_sandbox", "asks"
]
AttemptEnd = Literal["exited", "timeout", "stalled", "over_budget", "cancelled", "not_started"]


@dataclass(frozen=True, slots=True)
class Claim:
    """An agent's terminal record: its claim about its own work, never a fact.

    `ok` is `None` if the record holds words but no judgement. `kind` is the record's own name for its end (`success`,
    `turn.failed`, `end_turn`); `words` are its last ones.
    """

    ok: bool | None
    kind: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money (US dollars) that an attempt used, as far as the agent reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, other: Usage) -> Usage:
        """The sum of both; a figure that either does not report is unknown in the sum."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return Usage(*(None if one is None or more is None else one + more for one, more in pairs))

    def known(self) -> dict[str, float]:
        """The reported figures by name."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


class AttemptEvidence(NamedTuple):
    """Process-level result of an attempt, before its tree is inspected."""

    ended: AttemptEnd
    exit_code: int | None = None
    claim: Claim | None = None
    failure: FailureClass | None = None


class AttemptOutcome(NamedTuple):
    """What happens next with an attempt.

    `verify`: the checks judge it, and it counts. `give_back`: it does not count and is tried again. `ask`: the same,
    once the operator has fixed something. `wait`: the same, once the service answers again. `check` and `reason` are
    for the event.
    """

    then: Literal["verify", "give_back", "ask", "wait"]
    check: str = ""
    reason: str = ""


_VERIFY: Final = AttemptOutcome("verify")
_SERVICE: Final[dict[FailureClass, AttemptOutcome]] = {
    "rate_limited": AttemptOutcome("wait", "rate-limited", "the agent's service has a limit, and it is reached"),
    "unreachable": AttemptOutcome("wait", "agent-unreachable", "the agent could not reach its service"),
    "not_authenticated": AttemptOutcome("ask", "agent-not-authenticated", "the agent has no access to its service"),
    "own_sandbox": AttemptOutcome("ask", "agent-sandbox", "the sandbox that the agent brings refused its work"),
    "asks": AttemptOutcome("ask", "agent-asks", "the agent asks before it goes on"),
}


def outcome_of(seen: AttemptEvidence, *, changed: bool) -> AttemptOutcome:
    """Decide what happens with an attempt that *changed* the tree or not; its claim alone decides nothing.

    The first that applies: stopped; not started; service trouble (the attempt is not counted, its work is put aside);
    something to verify; a refusal or a limit of its own (repeating would not help, so it counts); an abnormal end.
    """
    if stopped := stopped_by(seen):
        return stopped
    if changed or seen.ended == "over_budget" or seen.failure in ("refused", "limit_reached") or not _failed(seen):
        return _VERIFY
    return AttemptOutcome("give_back", reason=how_it_ended(seen))


def stopped_by(seen: AttemptEvidence) -> AttemptOutcome | None:
    """The outcome where the tree does not matter, `None` if it does."""
    match seen.ended:
        case "cancelled":
            return AttemptOutcome("give_back", reason="stopped by a person")
        case "not_started":
            return AttemptOutcome("ask", "agent-not-started", "the agent could not be started")
        case _:
            return _SERVICE.get(seen.failure) if seen.failure else None


def how_it_ended(seen: AttemptEvidence) -> str:
    """How the attempt ended, in words: the observed fact first, then the agent's own claim."""
    if seen.ended != "exited":
        return _ENDS[seen.ended]
    if seen.exit_code:
        return f"ended with exit code {seen.exit_code}"
    return f"ended with {seen.claim.kind}" if seen.claim and seen.claim.ok is False else "ended"


_ENDS: Final[dict[AttemptEnd, str]] = {
    "timeout": "ran out of time",
    "stalled": "went silent",
    "over_budget": "was stopped at the limit of its budget",
    "cancelled": "was stopped",
    "not_started": "was not started",
}


def _failed(seen: AttemptEvidence) -> bool:
    claims_failure = seen.claim is not None and seen.claim.ok is False
    return seen.ended != "exited" or seen.exit_code != 0 or claims_failure
