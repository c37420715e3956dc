"""Write an event: first the log, durably, then what follows from it (design R2, R9)."""

from __future__ import annotations

from typing import Any

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.evolve import evolve
from irontree.domain.state import TaskState


def record(
    app: App, state: TaskState, kind: type[IssueEvent], *, meta: dict[str, Any] | None = None, **values: Any
) -> TaskState:
    """Append an event of *kind* to the issue of *state* and return the state after it.

    Keys that the contract leaves variable and that *values* does not give are taken over from *state*.
    An event that may not follow is never written: raises IllegalTransition. Raises SequenceConflict when
    somebody else appended first.
    """
    event = kind(**{**_carried_over(state, kind), "sequence": state.sequence + 1, **values})
    evolve(state, Record(event, meta or {}))
    written = app.log.append(event, expected_sequence=state.sequence, meta={**app.origin.meta(), **(meta or {})})
    return evolve(state, written)


def _carried_over(state: TaskState, kind: type[IssueEvent]) -> dict[str, Any]:
    """The common keys for which *kind* has no value of its own."""
    required = (name for name, field in kind.model_fields.items() if field.is_required() and name != "sequence")
    return {name: getattr(state, name) for name in required if name in IssueEvent.model_fields}


def snapshot(state: TaskState) -> dict[str, Any]:
    """The common keys that put an issue back into *state* (task_approved, checkup_unblocked)."""
    return {
        "current_stage": state.current_stage,
        "next_stage": state.next_stage,
        "workflow_entry_state": state.workflow_entry_state,
        "code_publication_state": state.code_publication_state,
        "pass_fail_outcome": state.pass_fail_outcome,
        "completion_basis": state.completion_basis,
        "code_ref": state.code_ref,
    }
