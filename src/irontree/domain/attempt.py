"""What an attempt of a coding agent came to: claims and observations in, an outcome out (docs/explanation/done.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

FailureClass = Literal["rate_limited", "not_authenticated", "refused", "unreachable", "limit_reached"]
AttemptEnd = Literal["exited", "timeout", "stalled", "over_budget", "cancelled", "not_started"]


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

    def plus(self, other: Usage) -> Usage:
        """Both together; what either does not say is not known of both."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return Usage(*(None if one is None or more is None else one + more for one, more in pairs))

    def known(self) -> dict[str, float]:
        """What it says, by name."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AttemptEvidence:
    """What is known of an attempt that has ended, before anybody looked at its work."""

    ended: AttemptEnd
    exit_code: int | None = None
    claim: Claim | None = None
    failure: FailureClass | None = None


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """What becomes of an attempt.

    `verify`: the checks judge it, and it counts. `give_back`: it counts for nothing and is tried again. `ask`: the
    same, once a person has put something right. `wait`: the same, once the service answers again. `check` and `reason`
    are for the event.
    """

    then: Literal["verify", "give_back", "ask", "wait"]
    check: str = ""
    reason: str = ""


_VERIFY: Final = AttemptOutcome("verify")
_SERVICE: Final[dict[FailureClass, AttemptOutcome]] = {
    "rate_limited": AttemptOutcome("wait", "rate-limited", "the agent's service has a limit, and it is reached"),
    "unreachable": AttemptOutcome("wait", "agent-unreachable", "the agent could not reach its service"),
    "not_authenticated": AttemptOutcome("ask", "agent-not-authenticated", "the agent has no access to its service"),
}


def outcome_of(seen: AttemptEvidence, *, changed: bool) -> AttemptOutcome:
    """Decide what becomes of an attempt that *changed* the tree or not; what it claims alone decides nothing.

    The first row that fits: stopped, not started, its service in the way (nothing is consumed that was not spent, its
    work is put aside), something to verify, a refusal or a limit of its own (which repeating would not lift, so it
    counts), an end that was none.
    """
    if stopped := stopped_by(seen):
        return stopped
    if changed or seen.ended == "over_budget" or seen.failure in ("refused", "limit_reached") or not _failed(seen):
        return _VERIFY
    return AttemptOutcome("give_back", reason=how_it_ended(seen))


def stopped_by(seen: AttemptEvidence) -> AttemptOutcome | None:
    """The outcome where the tree does not matter; None if it does."""
    match seen.ended:
        case "cancelled":
            return AttemptOutcome("give_back", reason="stopped by a person")
        case "not_started":
            return AttemptOutcome("ask", "agent-not-started", "the agent could not be started")
        case _:
            return _SERVICE.get(seen.failure) if seen.failure else None


def how_it_ended(seen: AttemptEvidence) -> str:
    """Its end in words: the fact first, then what it said itself."""
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
