"""Record an event: first the log, durably, then what follows from it (R2, R9); and where transcripts are kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.checks import TRUNCATION_MARKER
from irontree.domain.comments import close_on_done
from irontree.domain.events import IssueEvent, Record
from irontree.domain.ids import attempt_folder
from irontree.domain.machine import evolve
from irontree.domain.plan import PlanNode, canonical_json
from irontree.domain.state import TaskState
from irontree.domain.values import CloseOnDone
from irontree.services.record.world import read_world

# --- Write an event: first the log, durably, then what follows from it (R2, R9)


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


# --- Where what agents said is kept


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt."""
    return reports(app) / attempt_folder(state.issue_number, state.renewed_from, state.run_sequence)


def attempts_folder(app: App, state: TaskState) -> Path:
    """Where the folders of all attempts of the stream in force are; an archived stream's are elsewhere."""
    return transcript_folder(app, state).parent


def review_folder(app: App, state: TaskState, reviewer: str) -> Path:
    """The folder of a review that begins now, named by when (UTC), so that it writes over none before; a round each."""
    return transcript_folder(app, state) / f"review-{reviewer}-{app.clock.now().strftime(_STAMP)}"


def reports(app: App) -> Path:
    """Where all of them are, below a folder for each issue."""
    return app.repository.root / ".mino" / "reports"


RESULT_FILE: Final = "result.json"
_STAMP: Final = "%Y%m%dT%H%M%SZ"


def plans_folder(app: App) -> Path:
    """Where the transcripts of planning are, each in a folder named by when it began (UTC)."""
    return reports(app) / "plans"


def planning_folder(app: App) -> Path:
    """The folder of a planning that begins now."""
    return plans_folder(app) / app.clock.now().strftime(_STAMP)


def result_in(folder: Path) -> Mapping[str, Any]:
    """What an agent's adapter kept of its result there; empty where it did not come to that, or cannot be read."""
    try:
        found = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def began(name: str) -> str | None:
    """When that began (ISO 8601), by the time in the name of a folder; None where there is none."""
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).isoformat()
    except ValueError:
        return None


# --- Closing an issue that is done, unless that is left to a person (protocol, Close On Done)


def closing_policy(app: App, node: PlanNode | None) -> CloseOnDone:
    """`issue.close_on_done`, or what holds where it is unset. Raises ConfigRefused where it cannot be read."""
    return close_on_done(app.preferences().close_on_done, node)


def is_closed_by_us(app: App, state: TaskState) -> bool:
    """Whether the issue is done, and nobody else closes it."""
    return state.done and closing_policy(app, read_world(app).nodes.get(state.task_key)) == "auto"


def left_to_people(app: App, task_keys: Collection[str]) -> tuple[int, ...]:
    """The issues among these tasks that are done, and that a person closes."""
    states = (state for key, state in read_world(app).states.items() if key in task_keys)
    return tuple(sorted(state.issue_number for state in states if state.done and not is_closed_by_us(app, state)))


def close_where_due(app: App, state: TaskState) -> None:
    """Close an issue that is done and still open."""
    if not is_closed_by_us(app, state):
        return
    issue = app.forge().read_issue(state.issue_number)
    if issue and issue.state == "open":
        app.forge().edit_issue(state.issue_number, state="closed")
