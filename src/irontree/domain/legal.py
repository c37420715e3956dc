"""Which event may follow which state, with which counters and what evidence: the protocol's rules as one check.

`require_legal` raises IllegalTransition; `evolve` calls it first, so no state exists that it forbids.
"""

from __future__ import annotations

from typing import Final, Literal

from irontree.domain.events import CheckupUnblocked, IssueEvent, SequenceGapDetected, TaskApproved
from irontree.domain.state import Phase, TaskState
from irontree.domain.values import NOT_APPLICABLE, Basis, PublicationState
from irontree.errors import IllegalTransition

_ANYTIME: Final = frozenset({"checkup_reconcile_sequence_gap_detected"})
DETOURS: Final = _ANYTIME | {
    "task_reapproval_required",
    "checkup_preflight_blocked",
    "checkup_reconcile_external_close_detected",
}
_VERDICTS: Final = frozenset(
    {
        "verify_passed",
        "verify_failed_retryable",
        "verify_failed_terminal",
        "verify_pending_acceptance",
        "verify_publication_failed",
    }
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
    Phase.COMMITTED: DETOURS | _VERDICTS,
    Phase.PENDING: DETOURS | _ANSWERS_TO_PENDING,
    Phase.TERMINAL: DETOURS | {"checkup_unblocked"},
    Phase.BLOCKED: DETOURS | {"checkup_unblocked"},
    Phase.STALE: _ANYTIME | {"task_approved", "checkup_reconcile_external_close_detected"},
    Phase.VERIFIED: DETOURS | {"checkup_done"},
    Phase.DONE: _ANYTIME | {"task_reapproval_required", "checkup_preflight_blocked"},
}

_WORKED_ON: Final = (Phase.READY, Phase.COMMITTED, Phase.PENDING, Phase.TERMINAL)
"""Where `verify` and `retry` may be chosen; anywhere else they would go round an approval or a recovery."""
_STAGES: Final = {
    "verify": ("verify", "verify", "ready_to_start"),
    "retry": ("run", "verify", "ready_to_start"),
}
_ATTEMPT_STEP: Final[dict[str, int]] = {"run_started": 1, "run_commit_failed": -1, "run_interrupted": -1}


def require_legal(state: TaskState | None, event: IssueEvent) -> None:
    """Raise IllegalTransition unless *event* may follow *state* (None: an empty stream).

    Only a gap event may stand behind missing sequences (R13).
    """
    _require_expected(state, event)
    if state is None:
        _require_beginning(event)
        return
    _require_same_stream(state, event)
    _require_counters(state, event)
    _require_evidence(state, event)
    _require_restored(state, event)


def resumes(event: IssueEvent) -> bool:
    """Whether the event puts an issue back to where it was held, rather than to a new state."""
    return isinstance(event, TaskApproved) or (isinstance(event, CheckupUnblocked) and event.resolution == "resume")


def held(state: TaskState) -> TaskState:
    """What an issue on hold goes back to; else the issue itself."""
    return state.before or state


def _require_expected(state: TaskState | None, event: IssueEvent) -> None:
    phase = state.phase if state else None
    if event.event in LEGAL[phase]:
        return
    where = f"an issue that is {phase}" if phase else "an empty stream"
    raise IllegalTransition(f"{event.event} at sequence {event.sequence} cannot follow {where}")


def _require_beginning(event: IssueEvent) -> None:
    if (event.sequence, event.attempt_count) != (1, 0):
        raise IllegalTransition(
            f"{event.event} begins a stream at sequence {event.sequence}, attempt {event.attempt_count}; "
            "expected sequence 1, attempt 0"
        )


def _require_same_stream(state: TaskState, event: IssueEvent) -> None:
    """One stream is one task under one approval, without holes that no gap event names (contract, sequence)."""
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
    """What an event restores is what was there before, or work under way: no way round an approval (R7, B13)."""
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
