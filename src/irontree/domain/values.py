"""The protocol's enums and constrained scalars, as they are spelled on disk (contract, core fields)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

NOT_APPLICABLE: Final = "not_applicable"

Stage = Literal["definition", "decompose", "run", "verify", "checkup", "done"]
NextStage = Literal["decompose", "run", "verify", "checkup", "done", "none"]
EntryState = Literal["ready_to_start", "needs_breakdown", "pending_acceptance", "blocked"]
# "pending" is outside the contract's enum, but adopted events carry it.
ApprovalState = Literal["draft", "approval_ready", "approved", "pending"]
PublicationState = Literal["not_applicable", "local_only", "published"]
Outcome = Literal["pass", "fail_retryable", "fail_terminal"]
Basis = Literal["verified", "accepted", "aggregated"]
Shape = Literal["atomic", "composite"]
Executability = Literal["executable", "container"]
CloseOnDone = Literal["auto", "manual"]
ReplyMode = Literal["auto", "always", "never"]
"""Of replies and of notes in the documents: by a rule, or as a person says."""
Category = Literal["silent", "audible", "terminal", "loop"]
HaltReason = Literal[
    "goal_reached",
    "fail_terminal",
    "pending_acceptance",
    "reapproval_required",
    "blocked",
    "protocol_gap",
    "loop_budget_exhausted",
    "stale_takeover",
]

COMPOSITE_THRESHOLD: Final = 3
"""More open checkboxes than these make an issue composite (protocol; ruling R16)."""

TaskKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,80}$")]
SpecRevision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
CodeRef = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{7,64}|not_applicable)$")]
LoopId = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4}-[0-9a-f]{6}$")]
# A Literal takes no text for a number, and the codec reads every scalar as text (ruling R1).
ProtocolVersion = Annotated[Literal[1], BeforeValidator(lambda value: 1 if value == "1" else value)]


class Value(BaseModel):
    """A frozen value; unknown keys are refused because these models are file formats.

    What validates is made with the first value of a class: a process meets a few of the 70, and starts 20 ms earlier.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Event(Value):
    """What every kind of event carries; where the two keys stand among the others on disk is for the kind to say."""

    version: ProtocolVersion = 1
    if TYPE_CHECKING:
        sequence: int
        event: str
