"""The loop entity: goal, frozen set, budget and status (protocol, Loop Entity; events win over it, R17)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from irontree.domain.events import HaltReason
from irontree.domain.values import LoopId, TaskKey, Value

LoopStatus = Literal["running", "halted", "completed", "cancelled"]
MIN_BUDGET = 50
BUDGET_PER_TASK = 10
TRANSITIONS_KEPT = 200


def default_budget(tasks: int) -> int:
    """`max(50, 10 * tasks)` transitions (ruling R17)."""
    return max(MIN_BUDGET, BUDGET_PER_TASK * tasks)


class Transition(Value):
    """One invoked step of a loop."""

    iso: str
    task_key: TaskKey
    skill: str
    outcome: str


class LoopEntity(Value):
    """`.mino/loops/{loop_id}.yml`, keys in the contract's order."""

    loop_id: LoopId
    created_at: str
    goal_kind: Literal["task_done", "set_done"]
    intent: str
    resolved_query: str
    task_keys: tuple[TaskKey, ...]
    budget_max_transitions: int = Field(gt=0)
    budget_used: int = Field(default=0, ge=0)
    status: LoopStatus = "running"
    halt_reason: HaltReason | None = None
    halt_at_task_key: TaskKey | None = None
    halt_at_iso: str | None = None
    transitions: tuple[Transition, ...] = ()
    completed_at: str | None = None
