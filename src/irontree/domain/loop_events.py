"""The events of a loop, `.mino/loops/{loop_id}/events/{sequence:04d}-{kebab}.yml`, under `loop:`.

Field order is the key order on disk. Added to the contract (ruling R13): loop_budget_extended.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from irontree.domain.values import HaltReason, LoopId, ProtocolVersion, TaskKey, Value


class LoopEvent(Value):
    """The keys that every loop event carries."""

    version: ProtocolVersion = 1
    loop_id: LoopId
    sequence: int = Field(gt=0)
    event: str


class LoopStarted(LoopEvent):
    """A loop over a frozen set of tasks was authorised and began."""

    event: Literal["loop_started"] = "loop_started"
    goal_kind: Literal["task_done", "set_done"]
    task_keys: tuple[TaskKey, ...]
    budget_max_transitions: int = Field(gt=0)
    intent_hash: str


class LoopHalted(LoopEvent):
    """The loop handed the next decision to a person."""

    event: Literal["loop_halted"] = "loop_halted"
    halt_reason: HaltReason
    halt_at_task_key: TaskKey | None = None
    transitions_used: int = Field(ge=0)


class LoopResumed(LoopEvent):
    """A person re-engaged; the loop goes on."""

    event: Literal["loop_resumed"] = "loop_resumed"
    previous_halt_reason: HaltReason
    transitions_used: int = Field(ge=0)


class LoopBudgetExtended(LoopEvent):
    """A person allowed more transitions, or more to be spent (added event, ruling R13).

    What agents may spend more stands in `meta.budget`; no transition is added then (protocol, Budgets).
    """

    event: Literal["loop_budget_extended"] = "loop_budget_extended"
    extra_transitions: int = Field(ge=0)
    budget_max_transitions: int = Field(gt=0)
    by: str


class LoopCompleted(LoopEvent):
    """Every task in scope is done, but what was skipped."""

    event: Literal["loop_completed"] = "loop_completed"
    completed_at: str
    transitions_used: int = Field(ge=0)


class LoopCancelled(LoopEvent):
    """A person cancelled one task of the loop, or all of it."""

    event: Literal["loop_cancelled"] = "loop_cancelled"
    cancelled_at: str
    cancellation_scope: Literal["loop", "task"]
    task_key: TaskKey | None = None


LOOP_EVENTS: dict[str, type[LoopEvent]] = {
    cls.model_fields["event"].default: cls
    for cls in (LoopStarted, LoopHalted, LoopResumed, LoopBudgetExtended, LoopCompleted, LoopCancelled)
}
