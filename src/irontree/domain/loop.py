"""The loop entity: goal, frozen set, budget and status (protocol, Loop Entity; events win over it, R17)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from pydantic import Field

from irontree.domain.loop_events import LoopCancelled, LoopEvent
from irontree.domain.values import HaltReason, LoopId, TaskKey, Value

LoopStatus = Literal["running", "halted", "completed", "cancelled"]
OPEN: Final = ("running", "halted")
ENDED: Final = ("completed", "cancelled")
"""Nothing follows on these; what is open may go on."""
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


_FOLLOWS: Final[dict[LoopStatus | None, frozenset[str]]] = {
    None: frozenset({"loop_started"}),
    "running": frozenset({"loop_halted", "loop_budget_extended", "loop_completed", "loop_cancelled"}),
    "halted": frozenset({"loop_resumed", "loop_budget_extended", "loop_cancelled"}),
    "completed": frozenset(),
    "cancelled": frozenset(),
}
_STATUS_AFTER: Final[dict[str, LoopStatus]] = {
    "loop_started": "running",
    "loop_halted": "halted",
    "loop_resumed": "running",
    "loop_completed": "completed",
}


def illegal_loop_events(events: Iterable[LoopEvent]) -> Iterator[str]:
    """Which events of a loop may not stand where they do, each in words (contract, the loop's status machine)."""
    status: LoopStatus | None = None
    for expected, event in enumerate(events, start=1):
        if event.sequence != expected:
            yield f"sequence {expected} is missing"
            return
        if event.event not in _FOLLOWS[status]:
            where = f"a loop that is {status}" if status else "nothing"
            yield f"{event.event} at sequence {event.sequence} cannot follow {where}"
            return
        status = _status_after(event, status)


def _status_after(event: LoopEvent, status: LoopStatus | None) -> LoopStatus | None:
    if isinstance(event, LoopCancelled) and event.cancellation_scope == "loop":
        return "cancelled"
    return _STATUS_AFTER.get(event.event, status)
