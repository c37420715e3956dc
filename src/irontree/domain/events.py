"""One frozen model per protocol event, with the values the contract fixes for it.

Field order is the key order on disk. `.mino/events/issue-{N}/{sequence:04d}-{kebab}.yml` holds an event
under `iron_tree:` and what we add beside it under `meta:`. Loop events are in `domain/loop.py`.
Added to the contract (R13): task_approved, run_interrupted, checkup_unblocked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from irontree.domain.meta import Meta
from irontree.domain.values import (
    ApprovalState,
    Basis,
    Category,
    CodeRef,
    EntryState,
    Event,
    NextStage,
    Outcome,
    PublicationState,
    Sha,
    SpecRevision,
    Stage,
    TaskKey,
)

Resolution = Literal["resume", "verify", "retry"]


class IssueEvent(Event):
    """The 17 keys that every event of an issue carries: a full snapshot of its workflow state."""

    task_key: TaskKey
    issue_number: int = Field(gt=0)
    spec_revision: SpecRevision
    approved_revision: SpecRevision
    sequence: int = Field(gt=0)
    event: str
    current_stage: Stage
    next_stage: NextStage
    workflow_entry_state: EntryState
    approval_state: ApprovalState = "approved"
    attempt_count: int = Field(ge=0)
    max_retry_count: int = Field(ge=0)
    code_publication_state: PublicationState
    pass_fail_outcome: Outcome | None = None
    completion_basis: Basis | None = None
    code_ref: CodeRef | None = None


def verified_at(event: IssueEvent) -> str | None:
    """The commit that a verification event is about; None for any other event."""
    return getattr(event, "verify_anchor_sha", None)


class _Approved(IssueEvent):
    """Events of approved work."""

    approval_state: Literal["approved"] = "approved"


class _Open(_Approved):
    """Events that decide nothing: outcome, basis and code reference are null."""

    pass_fail_outcome: None = None
    completion_basis: None = None
    code_ref: None = None


class TaskPublished(_Open):
    """A node of an approved plan became an issue (phase 2)."""

    event: Literal["task_published"] = "task_published"
    current_stage: Literal["definition"] = "definition"
    next_stage: Literal["decompose", "run"]
    workflow_entry_state: Literal["needs_breakdown", "ready_to_start"]
    code_publication_state: Literal["not_applicable"] = "not_applicable"


class _Adoption(IssueEvent):
    current_stage: Literal["definition"] = "definition"
    next_stage: Literal["run"] = "run"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    approval_state: Literal["pending", "approval_ready", "approved"] = "pending"
    code_publication_state: Literal["not_applicable"] = "not_applicable"
    pass_fail_outcome: None = None
    completion_basis: None = None
    code_ref: None = None
    adopted_from: str = "github_issue"
    issue_url: str | None = None


class TaskAdopted(_Adoption):
    """An existing issue was adopted; it runs only after task_approved."""

    event: Literal["task_adopted"] = "task_adopted"
    original_title: str
    adopted_at: str


class TaskReAdopted(_Adoption):
    """An adopted issue was adopted again after its text changed."""

    event: Literal["task_re_adopted"] = "task_re_adopted"
    previous_revision: SpecRevision
    archive_path: str
    adopted_at: str


class TaskApproved(IssueEvent):
    """A person approved this task's revision; the common keys restore the state to go on from."""

    event: Literal["task_approved"] = "task_approved"
    approval_state: Literal["approved"] = "approved"
    by: str
    channel: str


class TaskReapprovalRequired(IssueEvent):
    """What was approved differs from what would run now (R7)."""

    event: Literal["task_reapproval_required"] = "task_reapproval_required"
    approval_state: Literal["approval_ready"] = "approval_ready"


class RunStarted(_Open):
    """An attempt began; attempt_count was raised exactly once."""

    event: Literal["run_started"] = "run_started"
    current_stage: Literal["run"] = "run"
    next_stage: Literal["verify"] = "verify"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["local_only"] = "local_only"


class RunCompleted(_Approved):
    """The attempt's change is committed, or there was nothing to commit."""

    event: Literal["run_completed"] = "run_completed"
    current_stage: Literal["verify"] = "verify"
    next_stage: Literal["verify"] = "verify"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["local_only", "not_applicable"]
    pass_fail_outcome: None = None
    completion_basis: None = None
    code_ref: CodeRef


class RunCommitFailed(_Open):
    """git refused the commit; the attempt does not count."""

    event: Literal["run_commit_failed"] = "run_commit_failed"
    current_stage: Literal["run"] = "run"
    next_stage: Literal["verify"] = "verify"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["local_only"] = "local_only"


class RunInterrupted(_Open):
    """The attempt ended without a commit of ours (crash, cancel); work is salvaged, the attempt does not count."""

    event: Literal["run_interrupted"] = "run_interrupted"
    current_stage: Literal["run"] = "run"
    next_stage: Literal["run"] = "run"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["local_only"] = "local_only"


class Reported(_Approved):
    """Events that may name a report and a reply (optional since v0.6.1 and v0.6.3)."""

    verify_anchor_sha: Sha
    report_path: str | None = None
    promoted_doc: str | None = None


class VerifyPassed(Reported):
    """Every check passed at the anchor, every criterion is covered, and the code is published (outcome A)."""

    event: Literal["verify_passed"] = "verify_passed"
    current_stage: Literal["checkup"] = "checkup"
    next_stage: Literal["done"] = "done"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["published", "not_applicable"]
    pass_fail_outcome: Literal["pass"] = "pass"
    completion_basis: Literal["verified"] = "verified"
    code_ref: CodeRef
    reply_posted: str | None = None


class VerifyFailedRetryable(_Approved):
    """A check failed, or a person sent the work back, and attempts are left (outcome B)."""

    event: Literal["verify_failed_retryable"] = "verify_failed_retryable"
    current_stage: Literal["run"] = "run"
    next_stage: Literal["verify"] = "verify"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    pass_fail_outcome: Literal["fail_retryable"] = "fail_retryable"
    completion_basis: None = None
    code_ref: None = None
    verify_anchor_sha: Sha


class VerifyFailedTerminal(Reported):
    """A check failed and the attempts are used up (outcome C)."""

    event: Literal["verify_failed_terminal"] = "verify_failed_terminal"
    current_stage: Literal["verify"] = "verify"
    next_stage: Literal["none"] = "none"
    workflow_entry_state: Literal["blocked"] = "blocked"
    pass_fail_outcome: Literal["fail_terminal"] = "fail_terminal"
    completion_basis: None = None
    code_ref: None = None


class VerifyPendingAcceptance(Reported):
    """Automation cannot decide; a person must (outcome D)."""

    event: Literal["verify_pending_acceptance"] = "verify_pending_acceptance"
    current_stage: Literal["verify"] = "verify"
    next_stage: Literal["checkup"] = "checkup"
    workflow_entry_state: Literal["pending_acceptance"] = "pending_acceptance"
    pass_fail_outcome: None = None
    completion_basis: None = None
    code_ref: None = None
    reply_posted: str | None = None


class VerifyPublicationFailed(_Open):
    """The checks passed but the code could not be published (outcome E); costs no attempt."""

    event: Literal["verify_publication_failed"] = "verify_publication_failed"
    current_stage: Literal["verify"] = "verify"
    next_stage: Literal["verify"] = "verify"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["local_only"] = "local_only"
    verify_anchor_sha: Sha


class CheckupPreflightBlocked(_Open):
    """The runway is broken, or repeating cannot help; a person must put something right."""

    event: Literal["checkup_preflight_blocked"] = "checkup_preflight_blocked"
    next_stage: Literal["none"] = "none"
    workflow_entry_state: Literal["blocked"] = "blocked"
    blocking_check: str


class CheckupUnblocked(IssueEvent):
    """A person cleared a block; the common keys state what holds from here (replay checkpoint)."""

    event: Literal["checkup_unblocked"] = "checkup_unblocked"
    cleared_sequence: int = Field(gt=0)
    resolution: Resolution
    extra_attempts: int = Field(ge=0)
    by: str
    reason: str | None = None


class CheckupAcceptRecorded(_Approved):
    """A person accepted exactly the pending anchor, which is published."""

    event: Literal["checkup_accept_recorded"] = "checkup_accept_recorded"
    current_stage: Literal["checkup"] = "checkup"
    next_stage: Literal["done"] = "done"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["published", "not_applicable"]
    pass_fail_outcome: Literal["pass"] = "pass"
    completion_basis: Literal["accepted"] = "accepted"
    code_ref: CodeRef


class CheckupAcceptPublicationFailed(_Open):
    """Accepted, but the code could not be published; still pending."""

    event: Literal["checkup_accept_publication_failed"] = "checkup_accept_publication_failed"
    current_stage: Literal["verify"] = "verify"
    next_stage: Literal["checkup"] = "checkup"
    workflow_entry_state: Literal["pending_acceptance"] = "pending_acceptance"
    code_publication_state: Literal["local_only"] = "local_only"


class CheckupAggregateRecorded(_Approved):
    """All planned children are done by evidence."""

    event: Literal["checkup_aggregate_recorded"] = "checkup_aggregate_recorded"
    current_stage: Literal["checkup"] = "checkup"
    next_stage: Literal["done"] = "done"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["not_applicable"] = "not_applicable"
    pass_fail_outcome: Literal["pass"] = "pass"
    completion_basis: Literal["aggregated"] = "aggregated"
    code_ref: Literal["not_applicable"] = "not_applicable"


class CheckupDone(_Approved):
    """Completion evidence is bound; the issue is done."""

    event: Literal["checkup_done"] = "checkup_done"
    current_stage: Literal["done"] = "done"
    next_stage: Literal["none"] = "none"
    workflow_entry_state: Literal["ready_to_start"] = "ready_to_start"
    code_publication_state: Literal["published", "not_applicable"]
    pass_fail_outcome: Literal["pass"] = "pass"
    completion_basis: Basis
    code_ref: CodeRef
    reply_posted: str | None = None


class ExternalCloseDetected(_Open):
    """The issue was closed outside without evidence; never believed."""

    event: Literal["checkup_reconcile_external_close_detected"] = "checkup_reconcile_external_close_detected"
    next_stage: Literal["none"] = "none"
    workflow_entry_state: Literal["blocked"] = "blocked"


class SequenceGapDetected(_Open):
    """Sequences are missing; blocks the issue although it stands behind the gap (R13)."""

    event: Literal["checkup_reconcile_sequence_gap_detected"] = "checkup_reconcile_sequence_gap_detected"
    found_sequences: tuple[int, ...]
    missing_sequences: tuple[int, ...]
    highest_replayable_sequence: int = Field(ge=0)


ISSUE_EVENTS: dict[str, type[IssueEvent]] = {
    cls.model_fields["event"].default: cls
    for cls in (
        TaskPublished,
        TaskAdopted,
        TaskReAdopted,
        TaskApproved,
        TaskReapprovalRequired,
        RunStarted,
        RunCompleted,
        RunCommitFailed,
        RunInterrupted,
        VerifyPassed,
        VerifyFailedRetryable,
        VerifyFailedTerminal,
        VerifyPendingAcceptance,
        VerifyPublicationFailed,
        CheckupPreflightBlocked,
        CheckupUnblocked,
        CheckupAcceptRecorded,
        CheckupAcceptPublicationFailed,
        CheckupAggregateRecorded,
        CheckupDone,
        ExternalCloseDetected,
        SequenceGapDetected,
    )
}

CATEGORY: dict[str, Category] = {
    "task_published": "silent",
    "task_adopted": "silent",
    "task_re_adopted": "silent",
    "task_approved": "silent",
    "task_reapproval_required": "audible",
    "run_started": "silent",
    "run_completed": "silent",
    "run_commit_failed": "audible",
    "run_interrupted": "silent",
    "verify_passed": "silent",
    "verify_failed_retryable": "audible",
    "verify_failed_terminal": "audible",
    "verify_pending_acceptance": "audible",
    "verify_publication_failed": "audible",
    "checkup_preflight_blocked": "audible",
    "checkup_unblocked": "silent",
    "checkup_accept_recorded": "silent",
    "checkup_accept_publication_failed": "audible",
    "checkup_aggregate_recorded": "silent",
    "checkup_done": "terminal",
    "checkup_reconcile_external_close_detected": "audible",
    "checkup_reconcile_sequence_gap_detected": "audible",
    "loop_started": "loop",
    "loop_halted": "audible",
    "loop_resumed": "silent",
    "loop_budget_extended": "silent",
    "loop_completed": "loop",
    "loop_cancelled": "loop",
}

# The contract's file names drop "-detected" for these two.
_KEBAB_EXCEPTIONS = {
    "checkup_reconcile_external_close_detected": "checkup-reconcile-external-close",
    "checkup_reconcile_sequence_gap_detected": "checkup-reconcile-sequence-gap",
}


def kebab(event: str) -> str:
    """The event's part of its file name: `verify_passed` -> `verify-passed`."""
    return _KEBAB_EXCEPTIONS.get(event, event.replace("_", "-"))


E = TypeVar("E", bound=Event)
"""Any kind of event that has streams."""


class StreamId(NamedTuple):
    """Which stream is meant: its kind, and its name among those."""

    kind: str
    name: str

    def __str__(self) -> str:
        """`issue-12`."""
        return f"{self.kind}-{self.name}"


@dataclass(frozen=True, slots=True)
class Record(Generic[E]):
    """An event as it stands in the log, with what we keep beside it: `meta:` drives few rules (protocol, Meta)."""

    event: E
    meta: dict[str, Any] = field(default_factory=dict)
    """As it is in the file, to be written, shown and digested; who reads a key of it asks `told`."""

    @property
    def told(self) -> Meta:
        """What `meta:` says, with types."""
        return Meta(self.meta)
