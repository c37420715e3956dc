"""The issue state machine: legal events and resulting states, `evolve(state, record)` and `replay(records)`.

The log is the truth: an event that does not fit raises IllegalTransition in `evolve`, so no state exists that
`require_legal` forbids; `replay` never raises, it stops there and says so (R13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from irontree.domain.events import (
    CheckupUnblocked,
    IssueEvent,
    Record,
    SequenceGapDetected,
    TaskApproved,
    TaskPublished,
    verified_at,
)
from irontree.domain.state import Phase, TaskState
from irontree.domain.transitions import Machine
from irontree.domain.values import NOT_APPLICABLE, Basis, PublicationState
from irontree.errors import IllegalTransition

_ANYTIME: Final = frozenset({"checkup_reconcile_sequence_gap_detected"})
DETOURS: Final = _ANYTIME | {
    "task_reapproval_required",
    "checkup_preflight_blocked",
    "checkup_reconcile_external_close_detected",
}
_VERDICTS: Final = frozenset(
    {"verify_passed", "verify_failed_retryable", "verify_failed_terminal", "verify_pending_acceptance"}
)
_ANSWERS_TO_PENDING: Final = frozenset(
    {
        "checkup_accept_recorded",
        "checkup_accept_publication_failed",
        "verify_failed_retryable",
        "verify_failed_terminal",
    }
)

LEGAL: Final[dict[Phase | None, frozenset[str]]] = {
    None: frozenset({"task_published", "task_adopted", "task_re_adopted"}),
    Phase.CONTAINER: DETOURS | {"checkup_aggregate_recorded"},
    Phase.ADOPTED: DETOURS | {"task_approved"},
    Phase.READY: DETOURS | {"run_started"},
    Phase.RUNNING: _ANYTIME | {"run_completed", "run_commit_failed", "run_interrupted"},
    Phase.COMMITTED: DETOURS | _VERDICTS | {"verify_publication_failed"},
    Phase.PENDING: DETOURS | _ANSWERS_TO_PENDING,
    Phase.TERMINAL: DETOURS | {"checkup_unblocked"},
    Phase.BLOCKED: DETOURS | {"checkup_unblocked"},
    Phase.STALE: _ANYTIME | {"task_approved", "checkup_reconcile_external_close_detected"},
    Phase.VERIFIED: DETOURS | {"checkup_done"},
    Phase.DONE: _ANYTIME | {"task_reapproval_required", "checkup_preflight_blocked"},
}

_WORKED_ON: Final = (Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL)
"""Where `verify` and `retry` may be chosen; anywhere else they would bypass an approval or a recovery."""
_STAGES: Final = {
    "verify": ("verify", "verify", "ready_to_start"),
    "retry": ("run", "verify", "ready_to_start"),
}
_ATTEMPT_STEP: Final[dict[str, int]] = {"run_started": 1, "run_commit_failed": -1, "run_interrupted": -1}


def require_legal(state: TaskState | None, event: IssueEvent) -> None:
    """Raise IllegalTransition unless *event* may follow *state* (None: an empty stream).

    Only a gap event may follow missing sequences (R13).
    """
    if refusal := MACHINE.refusal(state.phase if state else None, event):
        raise IllegalTransition(refusal)
    if state is None:
        _require_beginning(event)
        return
    _require_same_stream(state, event)
    _require_counters(state, event)
    _require_evidence(state, event)
    _require_restored(state, event)


def resumes(event: IssueEvent) -> bool:
    """Whether the event returns an issue to the state before its hold, not to a new one."""
    return isinstance(event, TaskApproved) or (isinstance(event, CheckupUnblocked) and event.resolution == "resume")


def held(state: TaskState) -> TaskState:
    """The state that an issue on hold returns to; otherwise its own."""
    return state.before or state


def _require_beginning(event: IssueEvent) -> None:
    if (event.sequence, event.attempt_count) != (1, 0):
        raise IllegalTransition(
            f"{event.event} begins a stream at sequence {event.sequence}, attempt {event.attempt_count}; "
            "expected sequence 1, attempt 0"
        )


def _require_same_stream(state: TaskState, event: IssueEvent) -> None:
    """A stream is one task under one approval, without gaps that no gap event names (contract, sequence)."""
    approved = event.approved_revision if isinstance(event, TaskApproved) else state.approved_revision
    if (event.task_key, event.issue_number, event.approved_revision) != (state.task_key, state.issue_number, approved):
        raise IllegalTransition(
            f"{event.event} at sequence {event.sequence} belongs to {event.task_key} (issue {event.issue_number}, "
            f"approved {event.approved_revision}), but this stream is {state.task_key} "
            f"(issue {state.issue_number}, approved {state.approved_revision})"
        )
    expected = state.sequence + 1
    if event.sequence != expected and not (isinstance(event, SequenceGapDetected) and event.sequence > expected):
        raise IllegalTransition(f"{event.event} has sequence {event.sequence}; expected {expected}")


def _require_counters(state: TaskState, event: IssueEvent) -> None:
    """Attempts rise by one at run_started, fall when given back, and stay within 1 + max_retry_count.

    A gap event repeats what could be read when it was written; the missing files may be back by now.
    """
    if isinstance(event, SequenceGapDetected):
        return
    attempts = state.attempt_count + _ATTEMPT_STEP.get(event.event, 0)
    extra = event.extra_attempts if isinstance(event, CheckupUnblocked) else 0
    if (event.attempt_count, event.max_retry_count) != (attempts, state.max_retry_count + extra):
        raise IllegalTransition(
            f"{event.event} at sequence {event.sequence} counts attempt {event.attempt_count} of "
            f"1 + {event.max_retry_count}; expected {attempts} of 1 + {state.max_retry_count + extra}"
        )
    if event.event == "run_started" and attempts > 1 + event.max_retry_count:
        raise IllegalTransition(f"run_started at sequence {event.sequence} exceeds the attempt budget")
    if event.event == "verify_failed_retryable" and attempts > event.max_retry_count:
        raise IllegalTransition(f"verify_failed_retryable at sequence {event.sequence} has no attempt left")


def _require_evidence(state: TaskState, event: IssueEvent) -> None:
    """`done` needs a basis, and a published SHA exactly when code changed (contract, core fields; B8)."""
    if event.event == "run_completed":
        _require_reference(event, "local_only")
    if event.completion_basis is None:
        return
    _require_reference(event, "published")
    if event.event == "checkup_done" and _evidence(event) != _evidence(state):
        raise IllegalTransition(f"checkup_done at sequence {event.sequence} differs from the evidence before it")
    if state.has_code and event.code_ref == NOT_APPLICABLE:
        raise IllegalTransition(f"{event.event} at sequence {event.sequence} leaves {state.commit} unpublished")


def _require_reference(event: IssueEvent, publication: PublicationState) -> None:
    """A SHA where code is *publication*; none where publication is not applicable."""
    has_sha = event.code_ref not in (None, NOT_APPLICABLE)
    if has_sha != (event.code_publication_state == publication):
        raise IllegalTransition(
            f"{event.event} at sequence {event.sequence} says {event.code_publication_state} with {event.code_ref}"
        )


def _evidence(holder: TaskState | IssueEvent) -> tuple[Basis | None, str | None]:
    return holder.completion_basis, holder.code_ref


def _require_restored(state: TaskState, event: IssueEvent) -> None:
    """An event may restore only the earlier state or work under way: no bypass of an approval (R7, B13)."""
    if isinstance(event, CheckupUnblocked) and event.resolution != "resume":
        _require_work(state, event, event.resolution)
    elif resumes(event) and _snapshot_keys(event) != _snapshot_keys(held(state)):
        raise IllegalTransition(
            f"{event.event} at sequence {event.sequence} restores {_snapshot_keys(event)}; "
            f"expected {_snapshot_keys(held(state))}"
        )
    elif isinstance(event, CheckupUnblocked) and state.before is None:
        raise IllegalTransition(f"checkup_unblocked at sequence {event.sequence} has nothing to resume")


def _require_work(state: TaskState, event: CheckupUnblocked, resolution: Literal["verify", "retry"]) -> None:
    where = f"checkup_unblocked at sequence {event.sequence} cannot {resolution}"
    if held(state).phase not in _WORKED_ON:
        raise IllegalTransition(f"{where} an issue that is {held(state).phase}")
    if _snapshot_keys(event) != (*_STAGES[resolution], None):
        raise IllegalTransition(f"{where} from {_snapshot_keys(event)}")
    if event.code_ref not in ((state.commit,) if resolution == "verify" else (None, state.commit)):
        raise IllegalTransition(f"{where} at {event.code_ref}; the task's commit is {state.commit}")
    if resolution == "verify" and state.commit is None:
        raise IllegalTransition(f"{where}: nothing is committed")
    if resolution == "retry" and event.attempt_count > event.max_retry_count:
        raise IllegalTransition(f"{where}: no attempt is left")


def _snapshot_keys(holder: TaskState | IssueEvent) -> tuple[object, ...]:
    return holder.current_stage, holder.next_stage, holder.workflow_entry_state, holder.completion_basis


# --- `evolve(state, record) -> state` and `replay(records)`: the state after an event


_PHASE_AFTER: Final[dict[str, Phase]] = {
    "task_adopted": Phase.ADOPTED,
    "task_re_adopted": Phase.ADOPTED,
    "task_reapproval_required": Phase.STALE,
    "run_started": Phase.RUNNING,
    "run_completed": Phase.COMMITTED,
    "run_commit_failed": Phase.READY,
    "run_interrupted": Phase.READY,
    "verify_passed": Phase.VERIFIED,
    "verify_failed_retryable": Phase.READY,
    "verify_failed_terminal": Phase.TERMINAL,
    "verify_pending_acceptance": Phase.PENDING,
    "verify_publication_failed": Phase.COMMITTED,
    "checkup_preflight_blocked": Phase.BLOCKED,
    "checkup_accept_recorded": Phase.VERIFIED,
    "checkup_accept_publication_failed": Phase.PENDING,
    "checkup_aggregate_recorded": Phase.VERIFIED,
    "checkup_done": Phase.DONE,
    "checkup_reconcile_external_close_detected": Phase.BLOCKED,
    "checkup_reconcile_sequence_gap_detected": Phase.BLOCKED,
}
"""Not here: task_published is by its entry state, task_approved and checkup_unblocked by what they restore."""
_UNBLOCKED_TO: Final = {"verify": Phase.COMMITTED, "retry": Phase.READY}


def _phase_chosen(event: IssueEvent) -> Phase | None:
    match event:
        case TaskPublished():
            return Phase.CONTAINER if event.workflow_entry_state == "needs_breakdown" else Phase.READY
        case CheckupUnblocked():
            return _UNBLOCKED_TO[event.resolution]
        case _:
            return None


MACHINE: Final[Machine[Phase, IssueEvent]] = Machine("an issue", "an empty stream", LEGAL, _PHASE_AFTER, _phase_chosen)

_BLOCKING_CHECK: Final[dict[str, str]] = {
    "checkup_reconcile_external_close_detected": "closed-outside",
    "checkup_reconcile_sequence_gap_detected": "sequence-gap",
}
_ADOPTIONS: Final = frozenset({"task_adopted", "task_re_adopted"})
_FREE_EVENTS: Final = frozenset({"run_interrupted", "run_commit_failed", "verify_publication_failed"})
_ENDS_STREAK: Final = _VERDICTS | {"run_completed", "checkup_unblocked", "checkup_accept_recorded"}
_FAILURES: Final = frozenset({"verify_failed_retryable", "verify_failed_terminal", "run_commit_failed"})
_ON_HOLD: Final = (Phase.BLOCKED, Phase.STALE)
_MISSING_LISTED: Final = 1000
"""Limit of the list, so that one file with a wrong, huge number does not make it billions long."""
_MISSING_NAMED: Final = 10


class Replay(NamedTuple):
    """The result of replaying a stream. `missing` are sequences that no gap event has named yet."""

    state: TaskState | None
    missing: tuple[int, ...] = ()
    problem: str | None = None


def evolve(state: TaskState | None, record: Record[IssueEvent]) -> TaskState:
    """The state after *record*; raises IllegalTransition if it may not follow *state*.

    Only a gap event may follow missing sequences (R13).
    """
    event = record.event
    require_legal(state, event)
    return _after(state or _blank(record), record)


def replay(records: Sequence[Record[IssueEvent]], *, highest_sequence: int = 0) -> Replay:
    """Fold a stream in sequence order; stops at the first event that does not fit and names it.

    After a gap only its own gap event counts, and what follows that one without another gap. Pass the stream's
    *highest_sequence*, so that unreadable files after the last event count as missing too.
    """
    seen = _fold(records, highest_sequence)
    settled = _settled(records) if seen.problem else frozenset()
    if settled:
        again = _fold([record for record in records if record.event.sequence not in settled], highest_sequence)
        return seen if again.problem else again
    return seen


def _fold(records: Sequence[Record[IssueEvent]], highest_sequence: int) -> Replay:
    state: TaskState | None = None
    for record in records:
        sequence, expected = record.event.sequence, state.sequence + 1 if state else 1
        if sequence != expected and not (isinstance(record.event, SequenceGapDetected) and sequence > expected):
            continue
        try:
            state = evolve(state, record)
        except IllegalTransition as error:
            return Replay(_with_problem(state, error.message), problem=error.message)
    missing = _missing(records, highest_sequence)
    if missing:
        return Replay(_with_problem(state, _missing_message(missing)), missing=missing)
    return Replay(state)


def _blank(record: Record[IssueEvent]) -> TaskState:
    """The state before a stream's first event."""
    return TaskState(
        **_snapshot(record.event),
        sequence=0,
        last_event="",
        phase=Phase.READY,
        approved_digest=record.told.approved_digest,
        renewed_from=record.told.archive_path,
        adopted=record.event.event in _ADOPTIONS or bool(record.told.issue_digest),
        issue_digest=record.told.issue_digest,
    )


_SHARED: Final = tuple(
    field.name for field in fields(TaskState) if field.name in IssueEvent.model_fields and field.name != "sequence"
)


def carried_over(state: TaskState, kind: type[IssueEvent]) -> dict[str, Any]:
    """The common keys, but the sequence, for which *kind* has no value of its own, as they are in *state*."""
    required = (name for name, field in kind.model_fields.items() if field.is_required() and name != "sequence")
    return {name: getattr(state, name) for name in required if name in IssueEvent.model_fields}


def _snapshot(event: IssueEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _SHARED}


def _after(state: TaskState, record: Record[IssueEvent]) -> TaskState:
    event = record.event
    if resumes(event):
        return _resumed(state, event)
    phase = MACHINE.follow(state.phase, event)
    return replace(
        state,
        **_news(event),
        **_run_facts(state, record),
        **_streak(state, event),
        **_wait(state, record),
        **_repetition(state, record),
        sequence=event.sequence,
        last_event=event.event,
        phase=phase,
        anchor=verified_at(event) or state.anchor,
        report_path=getattr(event, "report_path", None) or state.report_path,
        failure_sequence=event.sequence if event.event in _FAILURES else state.failure_sequence,
        blocking_check=getattr(event, "blocking_check", None) or _BLOCKING_CHECK.get(event.event),
        before=_before(state, phase),
        problem=None,
    )


def _resumed(state: TaskState, event: IssueEvent) -> TaskState:
    """The state before the hold, with its commit, its base and any earlier hold; counters keep their progress."""
    approved = isinstance(event, TaskApproved)
    before = _approved(held(state)) if approved else held(state)
    return replace(
        before,
        spec_revision=event.spec_revision,
        approved_revision=event.approved_revision,
        approved_digest=state.approved_digest if event.approved_revision == state.approved_revision else "",
        approval_state=event.approval_state if approved else before.approval_state,
        approvals=state.approvals + approved,
        max_retry_count=event.max_retry_count,
        sequence=event.sequence,
        last_event=event.event,
        waits=state.waits,
        **_repetition(state, Record(event)),
        **{"free_event": state.free_event, "free_streak": state.free_streak} | _streak(state, event),
    )


def _approved(state: TaskState) -> TaskState:
    """An adopted issue is ready once it is approved, also under a block."""
    if state.phase is Phase.ADOPTED:
        return replace(state, phase=Phase.READY, approval_state="approved")
    return replace(state, before=_approved(state.before)) if state.before else state


def _news(event: IssueEvent) -> dict[str, Any]:
    """The event's snapshot; a gap event only repeats what could be read, and null does not replace a code reference."""
    if isinstance(event, SequenceGapDetected):
        return {}
    snapshot = _snapshot(event)
    if event.code_ref is None:
        del snapshot["code_ref"]
    return snapshot


def _run_facts(state: TaskState, record: Record[IssueEvent]) -> dict[str, Any]:
    event = record.event
    match event.event:
        case "run_started":
            return {
                "base_sha": record.told.base_sha or state.base_sha,
                "fork_point": record.told.fork_point or record.told.base_sha or state.fork_point,
                "run_token": record.told.token or None,
                "run_sequence": event.sequence,
                "runs_started": state.runs_started + 1,
            }
        case "run_completed" | "checkup_unblocked":
            return {"commit": event.code_ref}
        case "verify_failed_retryable" | "verify_failed_terminal" if record.told.base_sha:
            # It failed only together with what others published: the next attempt starts from the merge.
            base = record.told.base_sha
            return {"base_sha": base, "fork_point": base, "commit": verified_at(event)}
        case "verify_pending_acceptance":
            return {"request": record.told.request}
        case "run_interrupted" | "run_commit_failed":
            return {"given_back": state.given_back + 1}
        case _:
            return {}


def _streak(state: TaskState, event: IssueEvent) -> dict[str, Any]:
    if event.event in _FREE_EVENTS:
        return {"free_event": event.event, "free_streak": state.free_streak + 1}
    if event.event in _ENDS_STREAK:
        return {"free_event": None, "free_streak": 0}
    return {}


def _wait(state: TaskState, record: Record[IssueEvent]) -> dict[str, Any]:
    """When the wait ends, if there is one, and how many there were since work resumed; a timer's answer is not work."""
    event = record.event
    if event.event == "checkup_preflight_blocked" and (not_before := record.told.not_before):
        return {"not_before": not_before, "waits": state.waits + 1}
    goes_on = event.event in _ENDS_STREAK and event.event != "checkup_unblocked"
    return {"not_before": None, "waits": 0 if goes_on else state.waits}


def _repetition(state: TaskState, record: Record[IssueEvent]) -> dict[str, Any]:
    """Repetitions of the same failure; any decision, except a timer's, resets the count."""
    event = record.event
    if event.event in _VERDICTS:
        found = record.told.fingerprint or None
        again = found is not None and found == state.fingerprint
        return {"fingerprint": found, "same_failures": (state.same_failures if again else 0) + (found is not None)}
    if event.event == "task_approved" or (event.event == "checkup_unblocked" and not state.not_before):
        return {"fingerprint": None, "same_failures": 0}
    return {"fingerprint": state.fingerprint, "same_failures": state.same_failures}


def _before(state: TaskState, phase: Phase) -> TaskState | None:
    """The state a hold returns to. A block and a missing approval are cleared each by its own answer, in any order."""
    if phase not in _ON_HOLD:
        return None
    if state.phase not in _ON_HOLD:
        return replace(state, problem=None)
    if state.phase is phase:
        return state.before
    beneath = state.before
    return replace(state, before=beneath.before) if beneath and beneath.phase is phase else state


def _with_problem(state: TaskState | None, problem: str) -> TaskState | None:
    return replace(state, problem=problem) if state else None


def _settled(records: Iterable[Record[IssueEvent]]) -> frozenset[int]:
    """Sequences given up by decision: files that reappear later and contradict it are ignored (B13)."""
    events = [record.event for record in records]
    cleared = max((event.cleared_sequence for event in events if isinstance(event, CheckupUnblocked)), default=0)
    gaps = (event for event in events if isinstance(event, SequenceGapDetected) and event.sequence <= cleared)
    return frozenset(sequence for gap in gaps for sequence in gap.missing_sequences)


def _missing(records: Iterable[Record[IssueEvent]], highest_sequence: int) -> tuple[int, ...]:
    """The first sequences that are absent and that no gap event has named."""
    known: set[int] = set()
    highest = highest_sequence
    for record in records:
        known.add(record.event.sequence)
        highest = max(highest, record.event.sequence)
        if isinstance(record.event, SequenceGapDetected):
            known.update(record.event.missing_sequences)
    return tuple(islice((n for n in range(1, highest + 1) if n not in known), _MISSING_LISTED))


def _missing_message(missing: tuple[int, ...]) -> str:
    named = ", ".join(map(str, missing[:_MISSING_NAMED]))
    more = " and more" if len(missing) > _MISSING_NAMED else ""
    return f"events are missing or cannot be read: sequence {named}{more}"
