"""Requests to agents that last: what a member of the team is asked beside its tasks, from the cause to what came of it.

A request has a key that follows from its cause, so one cause asks once, however often it is seen (T1). The answer is
stored before anything is posted, so that a crash in between posts it and asks nobody again (T2).
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

from pydantic import Field

from irontree.domain.attempt import Usage
from irontree.domain.plan import Approval, ExecutionPolicy, canonical_digest
from irontree.domain.timestamps import moment_in_utc
from irontree.domain.values import Value
from irontree.errors import IllegalTransition, NotEligible

RequestKind = Literal["mention", "discussion", "round", "review"]
RequestState = Literal["pending", "working", "done", "failed"]
MOST_STARTS: Final = 3
"""A request whose process dies that often has failed."""
KEY: Final = re.compile(
    rf"(?:{'|'.join(get_args(RequestKind))})-[A-Za-z][A-Za-z0-9_.-]{{0,60}}-[a-z0-9][a-z0-9-]{{0,39}}"
)
"""The form of every key: a plain name for a file."""


def request_key(kind: RequestKind, cause: str, member: str) -> str:
    """The name of the request, and of its file: `mention-C123-tester` for comment 123."""
    return f"{kind}-{cause}-{member}"


class AskedAgent(Value):
    """A request to a member of the team, as it is kept in `.mino/agent-requests/{key}.yml`."""

    version: Literal["1"] = "1"
    kind: RequestKind
    cause: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,60}$")
    """What asks: comment `C123`, issue `I100`, its second round `I100r2`, its five parts that are done `I100n5`, or
    `R7-0123456789ab`, request 7 at that head.
    """
    member: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    issue_number: int = Field(gt=0)
    by: str
    """The account that asks, or the member whose answer does."""
    text: str
    """What was said, for the agent to answer; of an issue why it is talked over again, if it is."""
    url: str = ""
    depth: int = Field(default=1, ge=1, le=2)
    """2 if another member's answer asks."""
    asked_at: str
    state: RequestState = "pending"
    starts: int = Field(default=0, ge=0)
    """How often the agent was started for it, and neither answered nor gave it back."""
    not_before: str = ""
    """When it may be gone on with (ISO 8601, UTC); empty for at once."""
    answer: str | None = None
    posted: str | None = None
    """The address of our comment with the answer, or of the request that was reviewed."""
    reason: str = ""
    """Why it failed, why it is not asked now, or why its answer was not posted."""
    seconds: float = 0.0
    usage: Usage = Usage(0, 0, 0.0)

    @property
    def key(self) -> str:
        """Its name; see `request_key`."""
        return request_key(self.kind, self.cause, self.member)

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do about it."""
        return self.state in ("pending", "working")


# --- What happens to a request: each is a new value, and none loses an answer


def begun(request: AskedAgent) -> AskedAgent:
    """The request as its agent is about to be started; failed, if too many processes died with it."""
    _require_unanswered(request)
    if request.starts >= MOST_STARTS:
        return failed(request, f"its process died {MOST_STARTS} times before there was an answer")
    return _with(request, state="working", starts=request.starts + 1, reason="", not_before="")


def given_back(request: AskedAgent, reason: str, not_before: str) -> AskedAgent:
    """The request, given as it was before it could not be gone on with for that *reason*: it rests until then."""
    _require_open(request)
    state = request.state if request.answer is not None else "pending"
    return _with(request, state=state, reason=reason, not_before=not_before)


def answered(request: AskedAgent, answer: str) -> AskedAgent:
    """The request with its answer, which is still to be posted. Nobody is asked again."""
    _require_unanswered(request)
    return _with(request, state="working", answer=answer)


def posted(request: AskedAgent, url: str) -> AskedAgent:
    """The request as its answer was posted, or was found there."""
    _require_open(request)
    return _with(request, state="done", posted=url, reason="", not_before="")


def left_unposted(request: AskedAgent, reason: str) -> AskedAgent:
    """The request as nothing is to be posted about it any more; an answer is kept."""
    _require_open(request)
    return _with(request, state="done", reason=reason)


def failed(request: AskedAgent, reason: str) -> AskedAgent:
    """The request as no answer came of it; a person may ask again."""
    _require_unanswered(request)
    return _with(request, state="failed", reason=reason)


def again(request: AskedAgent, now: str) -> AskedAgent:
    """A failed request, to be asked anew from *now* on (ISO 8601, UTC). Raises NotEligible for any other."""
    if request.state != "failed":
        raise NotEligible(
            f"{request.key} has not failed: it is {request.state}", remedy="`irontree status` names those that have"
        )
    return _with(request, state="pending", starts=0, reason="", not_before=now)


def used(request: AskedAgent, seconds: float, usage: Usage) -> AskedAgent:
    """The request with what asking took, in addition to what it took before."""
    return _with(request, seconds=round(request.seconds + seconds, 3), usage=request.usage.plus(usage))


def is_due(request: AskedAgent, now: str) -> bool:
    """Whether something can be done about it at that time (ISO 8601, UTC)."""
    at, later = moment_in_utc(now), moment_in_utc(request.not_before)
    return request.is_open and (at is None or later is None or later <= at)


def _require_open(request: AskedAgent) -> None:
    if not request.is_open:
        raise IllegalTransition(f"{request.key} is {request.state}: nothing follows that")


def _require_unanswered(request: AskedAgent) -> None:
    _require_open(request)
    if request.answer is not None:
        raise IllegalTransition(f"{request.key} has an answer: nobody is asked again")


def _with(request: AskedAgent, **changes: object) -> AskedAgent:
    return request.model_copy(update=changes)


class StandingApproval(Value):
    """The settings by which the team may be asked without an approval of each request, and who approved them (R6)."""

    version: Literal["1"] = "1"
    policy: ExecutionPolicy
    approval: Approval
    assignment: bool = Field(default=False, exclude_if=lambda approves: approves is False)
    """Whether assigning an issue to a member approves it; see `domain/assignment.py`."""
    reviews: bool = Field(default=False, exclude_if=lambda approved: approved is False)
    """Whether reviewers may be started on what is proposed, when the forge asks their account for a review."""

    @property
    def digest(self) -> str:
        """64 hex over all that is approved; that of the settings where it is mentions alone."""
        more = [name for name in ("assignment", "reviews") if getattr(self, name)]
        return canonical_digest([self.policy.digest, *more]) if more else self.policy.digest
