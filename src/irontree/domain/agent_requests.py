"""Requests to agents that last: what a member of the team is asked beside its tasks, from the cause to what came of it.

A request has a key that follows from its cause, so one cause asks once, however often it is seen (T1). The answer is
stored before anything is posted, so that a crash in between posts it and asks nobody again (T2).
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from irontree.domain.attempt import Usage
from irontree.domain.plan import Approval, ExecutionPolicy
from irontree.domain.values import Value

RequestKind = Literal["mention"]
RequestState = Literal["pending", "working", "done", "failed"]
MOST_STARTS: Final = 3
"""A request whose process dies that often has failed."""


def request_key(kind: RequestKind, cause: str, member: str) -> str:
    """The name of the request, and of its file: `mention-C123-tester` for comment 123."""
    return f"{kind}-{cause}-{member}"


class AskedAgent(Value):
    """A request to a member of the team, as it is kept in `.mino/agent-requests/{key}.yml`."""

    version: Literal["1"] = "1"
    kind: RequestKind
    cause: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,60}$")
    """What asks, for example `C123` for the comment with that id."""
    member: str
    issue_number: int = Field(gt=0)
    by: str
    """The account that asks, or the member whose answer does."""
    text: str
    """What was said, for the agent to answer."""
    url: str = ""
    depth: int = Field(default=1, ge=1, le=2)
    """2 if another member's answer asks."""
    asked_at: str
    state: RequestState = "pending"
    starts: int = Field(default=0, ge=0)
    answer: str | None = None
    posted: str | None = None
    """The address of our comment with the answer."""
    reason: str = ""
    """Why it failed, or why its answer was not posted."""
    seconds: float = 0.0
    usage: Usage = Usage()

    @property
    def key(self) -> str:
        """Its name; see `request_key`."""
        return request_key(self.kind, self.cause, self.member)

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do about it."""
        return self.state in ("pending", "working")


class StandingApproval(Value):
    """The settings by which the team may be asked without an approval of each request, and who approved them (R6)."""

    version: Literal["1"] = "1"
    policy: ExecutionPolicy
    approval: Approval
