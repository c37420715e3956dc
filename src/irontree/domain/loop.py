"""The loop entity: goal, frozen set, budget, status, and its events, which win over it (protocol, Loop Entity; R17).

Field order is the key order on disk. Added to the contract (R13): loop_budget_extended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from pydantic import Field

from irontree.domain.meta import Meta
from irontree.domain.transitions import Machine
from irontree.domain.values import Event, HaltReason, LoopId, TaskKey, Value

GoalKind = Literal["task_done", "set_done"]


class LoopEvent(Event):
    """The keys that every loop event carries."""

    loop_id: LoopId
    sequence: int = Field(gt=0)
    event: str


class LoopStarted(LoopEvent):
    """A loop over a frozen set of tasks was authorised and began."""

    event: Literal["loop_started"] = "loop_started"
    goal_kind: GoalKind
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
    """A person allowed more transitions, or more to be spent (added event, R13).

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


# --- The loop entity


LoopStatus = Literal["running", "halted", "completed", "cancelled"]
OPEN: Final = ("running", "halted")
ENDED: Final = ("completed", "cancelled")
"""The final statuses; no event may follow."""
MIN_BUDGET = 50
BUDGET_PER_TASK = 10
TRANSITIONS_KEPT = 200


def default_budget(tasks: int) -> int:
    """`max(50, 10 * tasks)` transitions (R17)."""
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
    goal_kind: GoalKind
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


def _status_chosen(event: LoopEvent) -> LoopStatus | None:
    return "cancelled" if isinstance(event, LoopCancelled) and event.cancellation_scope == "loop" else None


LOOP_MACHINE: Final[Machine[LoopStatus, LoopEvent]] = Machine(
    "a loop", "nothing", _FOLLOWS, _STATUS_AFTER, _status_chosen
)


def illegal_loop_events(events: Iterable[LoopEvent]) -> Iterator[str]:
    """The events of a loop that are illegal where they are, each in words (contract, the loop's status machine)."""
    status: LoopStatus | None = None
    for expected, event in enumerate(events, start=1):
        if event.sequence != expected:
            yield f"sequence {expected} is missing"
            return
        if refusal := LOOP_MACHINE.refusal(status, event):
            yield refusal
            return
        status = LOOP_MACHINE.follow(status or "running", event)


def entity_after(entity: LoopEntity, event: LoopEvent, told: Meta) -> LoopEntity:
    """The entity after one more event; the use recorded in the event counts if the file had been lost."""
    used = max(entity.budget_used, getattr(event, "transitions_used", 0))
    status = LOOP_MACHINE.follow(entity.status, event)
    return entity.model_copy(update={"status": status, "budget_used": used} | _change(event, told))


_RUNNING: Final = {"halt_reason": None, "halt_at_task_key": None, "halt_at_iso": None}


def _change(event: LoopEvent, told: Meta) -> dict[str, Any]:
    match event:
        case LoopStarted():
            return {**_RUNNING, "budget_max_transitions": event.budget_max_transitions, "task_keys": event.task_keys}
        case LoopResumed():
            return dict(_RUNNING)
        case LoopHalted():
            return {
                "halt_reason": event.halt_reason,
                "halt_at_task_key": event.halt_at_task_key,
                "halt_at_iso": told.time or None,
            }
        case LoopBudgetExtended():
            return {"budget_max_transitions": event.budget_max_transitions}
        case LoopCompleted():
            return {"completed_at": event.completed_at}
        case _:
            return {}


def entity_from(event: LoopStarted, told: Meta) -> LoopEntity:
    """The entity of a new loop, or of one whose file was lost; later events add what it has used."""
    return LoopEntity(
        loop_id=event.loop_id,
        created_at=told.time,
        goal_kind=event.goal_kind,
        intent=told.intent,
        resolved_query=told.resolved_query,
        task_keys=event.task_keys,
        budget_max_transitions=event.budget_max_transitions,
    )
