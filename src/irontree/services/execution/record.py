"""Write an event: first the log, durably, then what follows from it (R2, R9)."""

from __future__ import annotations

from typing import Any, Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.evolve import evolve
from irontree.domain.plan import canonical_json
from irontree.domain.results import TRUNCATION_MARKER
from irontree.domain.state import TaskState

META_BYTES: Final = 48 * 1024
"""As JSON, which is never shorter than the YAML in the file; the rest is for the keys of the contract."""
TEXT_KEPT, ITEMS_KEPT, ITEM_KEPT = 2_000, 50, 100


def record(
    app: App, state: TaskState, kind: type[IssueEvent], *, meta: dict[str, Any] | None = None, **values: Any
) -> TaskState:
    """Append an event of *kind* to the issue of *state* and return the state after it.

    Keys that the contract leaves variable and that *values* does not give are taken over from *state*.
    An event that may not follow is never written: raises IllegalTransition. Raises SequenceConflict when
    somebody else appended first. Of a *meta* that no event file could hold, long texts and lists are cut.
    """
    meta = _fitting(meta or {})
    event = kind(**{**_carried_over(state, kind), "sequence": state.sequence + 1, **values})
    evolve(state, Record(event, meta))
    written = app.log.append(event, expected_sequence=state.sequence, meta={**app.origin.meta(), **meta})
    return evolve(state, written)


def _fitting(meta: dict[str, Any]) -> dict[str, Any]:
    """Event files have 64 KiB (ruling R1), and the work must not stop because somebody had much to say."""
    fits = len(canonical_json(meta).encode(errors="replace")) <= META_BYTES
    return meta if fits else {key: _cut(value) for key, value in meta.items()}


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > TEXT_KEPT:
            return f"{value[:TEXT_KEPT]} {TRUNCATION_MARKER}"
        case list() if len(value) > ITEMS_KEPT:
            return [*(_cut_item(item) for item in value[:ITEMS_KEPT]), f"and {len(value) - ITEMS_KEPT} more"]
        case list():
            return [_cut_item(item) for item in value]
        case _:
            return value


def _cut_item(item: Any) -> Any:
    return f"{item[:ITEM_KEPT]} {TRUNCATION_MARKER}" if isinstance(item, str) and len(item) > ITEM_KEPT else item


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
