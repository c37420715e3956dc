"""Histories for tests: events built tersely as a careful writer would, and a strategy that walks what is legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from irontree.domain.events import ISSUE_EVENTS, IssueEvent, Record
from irontree.domain.machine import LEGAL, evolve
from irontree.domain.state import Phase, TaskState

Records = tuple[Record[IssueEvent], ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

KEY, NUMBER, REVISION, OTHER_REVISION = "core-api", 7, "12345e67", "00123456"
BASE, COMMIT, MERGE = "b" * 40, "c" * 40, "d" * 40
GAP = "checkup_reconcile_sequence_gap_detected"
CLOSED = "checkup_reconcile_external_close_detected"

PLAIN: dict[str, Any] = {
    "task_key": KEY,
    "issue_number": NUMBER,
    "spec_revision": REVISION,
    "approved_revision": REVISION,
    "sequence": 1,
    "attempt_count": 0,
    "max_retry_count": 3,
    "current_stage": "definition",
    "next_stage": "run",
    "workflow_entry_state": "ready_to_start",
    "code_publication_state": "not_applicable",
    "code_ref": "not_applicable",
    "completion_basis": "verified",
    # What single events carry besides.
    "verify_anchor_sha": COMMIT,
    "blocking_check": "dirty-working-tree",
    "by": "ada",
    "channel": "terminal",
    "original_title": "Add an API",
    "adopted_at": "2026-04-22T14:32:11Z",
    "previous_revision": OTHER_REVISION,
    "archive_path": ".mino/archive/issue-7-rev-00123456",
    "found_sequences": (1,),
    "missing_sequences": (2,),
    "highest_replayable_sequence": 1,
    "cleared_sequence": 1,
    "resolution": "resume",
    "extra_attempts": 0,
}
"""A value for every key that some event leaves open."""

CONTAINER = ("task_published", {"next_stage": "decompose", "workflow_entry_state": "needs_breakdown"})
WITH_CODE = ("run_completed", {"code_ref": COMMIT, "code_publication_state": "local_only"})
PATHS: dict[Phase, tuple[str | tuple[str, dict[str, Any]], ...]] = {
    Phase.CONTAINER: (CONTAINER,),
    Phase.ADOPTED: ("task_adopted",),
    Phase.READY: ("task_published",),
    Phase.RUNNING: ("task_published", "run_started"),
    Phase.COMMITTED: ("task_published", "run_started", WITH_CODE),
    Phase.PENDING: ("task_published", "run_started", WITH_CODE, "verify_pending_acceptance"),
    Phase.TERMINAL: (
        ("task_published", {"max_retry_count": 0}),
        "run_started",
        WITH_CODE,
        "verify_failed_terminal",
    ),
    Phase.BLOCKED: ("task_published", "checkup_preflight_blocked"),
    Phase.STALE: ("task_published", "task_reapproval_required"),
    Phase.VERIFIED: ("task_published", "run_started", WITH_CODE, "verify_passed"),
    Phase.DONE: ("task_published", "run_started", WITH_CODE, "verify_passed", "checkup_done"),
}
"""A short way to every phase."""


def event(name: str, **values: Any) -> IssueEvent:
    """An event of that name; keys that it leaves open and that *values* does not give are PLAIN."""
    model = ISSUE_EVENTS[name]
    required = {key: PLAIN[key] for key, field in model.model_fields.items() if field.is_required()}
    return model(**(required | values))


def record(name: str, *, meta: dict[str, Any] | None = None, **values: Any) -> Record[IssueEvent]:
    """The same, as it stands in the log."""
    return Record(event(name, **values), meta or {})


def follow(
    state: TaskState | None, name: str, *, meta: dict[str, Any] | None = None, **values: Any
) -> Record[IssueEvent]:
    """The record that a careful writer appends to *state*: next sequence, right counters, keys carried over."""
    if state is None:
        return record(name, meta=meta, **values)
    return record(name, meta=meta or _meta_of(name), **(_carried(state, name) | _own(state, name, values) | values))


def _meta_of(name: str) -> dict[str, Any]:
    return {"base_sha": BASE, "token": "7/12345e67/2"} if name == "run_started" else {}


def _carried(state: TaskState, name: str) -> dict[str, Any]:
    fields = ISSUE_EVENTS[name].model_fields
    open_keys = (key for key in fields if fields[key].is_required() and key in IssueEvent.model_fields)
    return {key: getattr(state, key) for key in open_keys} | {"sequence": state.sequence + 1}


def _own(state: TaskState, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """What the event says of its own accord."""
    match name:
        case "run_started":
            return {"attempt_count": state.attempt_count + 1}
        case "run_commit_failed" | "run_interrupted":
            return {"attempt_count": state.attempt_count - 1}
        case "run_completed":
            return {"code_ref": "not_applicable", "code_publication_state": "not_applicable"}
        case "verify_passed" | "checkup_accept_recorded":
            return _published(state)
        case "checkup_done":
            return _snapshot(state, ("completion_basis", "code_ref", "code_publication_state"))
        case "task_approved":
            return _snapshot(state.before or state)
        case "checkup_unblocked":
            return _unblocked(state, values)
        case _:
            return {}


def _published(state: TaskState) -> dict[str, Any]:
    if not state.has_code:
        return {"code_ref": "not_applicable", "code_publication_state": "not_applicable"}
    return {"code_ref": state.commit, "code_publication_state": "published"}


RESTORED = (
    "current_stage",
    "next_stage",
    "workflow_entry_state",
    "code_publication_state",
    "pass_fail_outcome",
    "completion_basis",
    "code_ref",
)


def _snapshot(state: TaskState, keys: Sequence[str] = RESTORED) -> dict[str, Any]:
    return {key: getattr(state, key) for key in keys}


def _unblocked(state: TaskState, values: dict[str, Any]) -> dict[str, Any]:
    resolution = values.get("resolution", "resume")
    common = {
        "cleared_sequence": state.sequence,
        "max_retry_count": state.max_retry_count + values.get("extra_attempts", 0),
    }
    if resolution == "resume":
        return common | _snapshot(state.before or state)
    stage = "verify" if resolution == "verify" else "run"
    return common | {
        "current_stage": stage,
        "next_stage": "verify",
        "workflow_entry_state": "ready_to_start",
        "code_publication_state": "local_only",
        "code_ref": state.commit,
    }


@dataclass(frozen=True)
class History:
    """A stream under construction: `History().then("task_published", "run_started")`."""

    records: Records = ()
    state: TaskState | None = None

    def then(
        self, *steps: str | tuple[str, dict[str, Any]], meta: dict[str, Any] | None = None, **values: Any
    ) -> History:
        """This history with more events; *values* and *meta* belong to every one of them that is named alone."""
        history = self
        for step in steps:
            name, own = (step, values) if isinstance(step, str) else step
            following = follow(history.state, name, meta=meta, **own)
            history = History((*history.records, following), evolve(history.state, following))
        return history

    @property
    def now(self) -> TaskState:
        """The state; there is at least one event."""
        assert self.state is not None
        return self.state


def reach(phase: Phase) -> History:
    """A short history that ends in *phase*."""
    return History().then(*PATHS[phase])


def task(key: str, phase: Phase, *, number: int = NUMBER, sequence: int | None = None) -> TaskState:
    """A state in *phase* under another name."""
    state = reach(phase).now
    return replace(state, task_key=key, issue_number=number, sequence=sequence or state.sequence)


# --- random histories ---------------------------------------------------------------------------------------

_SELDOM = {"task_reapproval_required", "checkup_preflight_blocked", CLOSED, GAP}
_BEGINNINGS = ("task_published", "task_published", "task_published", CONTAINER, "task_adopted", "task_re_adopted")


@st.composite
def histories(draw: Draw, *, most: int = 30, gaps: bool = True) -> History:
    """A legal history of up to *most* events; with *gaps*, gap events stand behind sequences that are not there."""
    beginning = draw(st.sampled_from(_BEGINNINGS))
    name, values = (beginning, {}) if isinstance(beginning, str) else beginning
    history = History().then(name, max_retry_count=draw(st.integers(0, 3)), **values)
    for _ in range(draw(st.integers(0, most - 1))):
        names = [name for name in _possible(history.now) if gaps or name != GAP]
        if not names:
            break
        history = _extend(draw, history, draw(st.sampled_from(names)))
    return history


def _possible(state: TaskState) -> list[str]:
    """Names that may follow, the ordinary ones more often than detours; the attempt budget says which failure."""
    failure = "verify_failed_terminal" if state.attempt_count <= state.max_retry_count else "verify_failed_retryable"
    names = sorted(LEGAL[state.phase] - {failure})
    return [name for name in names for _ in range(1 if name in _SELDOM else 20)]


def _extend(draw: Draw, history: History, name: str) -> History:
    state = history.now
    match name:
        case "run_completed" if draw(st.booleans()):
            return history.then(WITH_CODE)
        case "checkup_unblocked":
            return history.then(name, **draw(st.sampled_from(_resolutions(state))))
        case "verify_failed_retryable" if draw(st.booleans()):
            return history.then(name, verify_anchor_sha=MERGE, meta={"base_sha": MERGE})
        case _ if name == GAP:
            return _with_gap(history, draw(st.integers(1, 3)))
        case _:
            return history.then(name)


def _with_gap(history: History, lost: int) -> History:
    end = history.now.sequence
    return history.then(
        GAP,
        sequence=end + lost + 1,
        found_sequences=tuple(known.event.sequence for known in history.records),
        missing_sequences=tuple(range(end + 1, end + lost + 1)),
        highest_replayable_sequence=end,
    )


def _resolutions(state: TaskState) -> list[dict[str, Any]]:
    """Answers that are open to a person here (R13)."""
    beneath = (state.before or state).phase
    found = [] if state.phase is Phase.TERMINAL else [{"resolution": "resume"}]
    if beneath in {Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL}:
        spent = max(0, state.attempt_count - state.max_retry_count)
        found += [{"resolution": "retry", "extra_attempts": spent + more} for more in (0, 2)]
        found += [{"resolution": "verify"}] if state.commit else []
    return found


@st.composite
def damaged(draw: Draw) -> Records:
    """Records of legal histories, dropped, doubled, swapped, mixed and cut: what a broken disk may hold."""
    pool = [kept for history in draw(st.lists(histories(most=15), min_size=1, max_size=3)) for kept in history.records]
    picked = draw(st.lists(st.sampled_from(pool), max_size=40))
    order = draw(st.sampled_from(["as drawn", "by sequence", "legal with holes"]))
    if order == "by sequence":
        picked.sort(key=lambda kept: kept.event.sequence)
    if order == "legal with holes":
        dropped = draw(st.sets(st.sampled_from(range(len(pool)))))
        picked = [kept for position, kept in enumerate(pool) if position not in dropped]
    return tuple(picked)
