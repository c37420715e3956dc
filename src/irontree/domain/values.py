"""The protocol's enums and constrained scalars, as they are spelled on disk (contract, core fields)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, model_validator

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
"""The mode of replies and of notes in documents: by a rule, or a fixed choice."""
Discussion = Literal["everybody", "lead"]
"""Who of a team is asked about new issues."""
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

FROM_FILE: Final = "file"
"""The validation context for `.mino/config.yml`: values are kept as written there."""
COMPOSITE_THRESHOLD: Final = 3
"""More open checkboxes than these make an issue composite (protocol; R16)."""

TaskKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,80}$")]
SpecRevision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]
CodeRef = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{7,64}|not_applicable)$")]
LoopId = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4}-[0-9a-f]{6}$")]
# A Literal does not convert text to a number, and the codec reads every scalar as text (R1).
ProtocolVersion = Annotated[Literal[1], BeforeValidator(lambda value: 1 if value == "1" else value)]


def short_sha(code_ref: str | None) -> str:
    """The abbreviated commit id; empty for none."""
    return code_ref[:7] if code_ref and code_ref != NOT_APPLICABLE else ""


class Value(BaseModel):
    """A frozen value; unknown keys are refused because these models are file formats.

    What validates is made with the first value of a class: a process meets a few of the 70, and starts 20 ms earlier.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def is_unset(value: object) -> bool:
    """Whether to leave out a later key that is unset, so that upgrading changes no file and no digest."""
    return value is None


def is_empty(value: object) -> bool:
    """The same for a list with nothing in it, and a mark that most plans lack."""
    return not value


def is_default(default: object) -> Callable[[object], bool]:
    """The same for a key that has that value unless somebody chose otherwise."""
    return lambda value: value == default


class PromotionPolicy(Value):
    """Whether notes of verified work go into the project's documents, and into which folder (Promotion)."""

    mode: ReplyMode = "auto"
    docs_path: str = "docs/integrations"


class Section(Value):
    """A group of keys of `.mino/config.yml`: YAML has types, so that text is no number there; see `Config`.

    What is approved of it is itself, or the base that names the same keys: a plan's scalars are all text (R1).
    """

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, data: object) -> object:
        """`verify:` with nothing, or only comments, below it says nothing."""
        if not isinstance(data, Mapping):
            return data
        said = {key: value for key, value in data.items() if value is not None or key not in cls.known_keys()}
        return {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """The keys as they are written in the file."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


class Event(Value):
    """What every kind of event carries; where the two keys stand among the others on disk is for the kind to say."""

    version: ProtocolVersion = 1
    if TYPE_CHECKING:
        sequence: int
        event: str
