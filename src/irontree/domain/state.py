"""The replayed state of one issue, and the labels that are a function of it (R16)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from irontree.domain.values import (
    NOT_APPLICABLE,
    ApprovalState,
    Basis,
    EntryState,
    NextStage,
    Outcome,
    PublicationState,
    Stage,
)


class Phase(StrEnum):
    """What may happen next to an issue (R11); the protocol's stage fields alone misroute four states."""

    CONTAINER = "waiting for its children"
    ADOPTED = "adopted, not approved"
    READY = "ready to run"
    RUNNING = "running"
    COMMITTED = "committed, to be verified"
    PENDING = "waiting for acceptance"
    TERMINAL = "failed, attempts used up"
    BLOCKED = "blocked"
    STALE = "waiting for approval again"
    VERIFIED = "verified, to be finalized"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class TaskState:
    """An issue's state according to its log. `sequence` and `last_event` name the newest event that counted."""

    task_key: str
    issue_number: int
    spec_revision: str
    approved_revision: str
    sequence: int
    last_event: str
    phase: Phase
    current_stage: Stage
    next_stage: NextStage
    workflow_entry_state: EntryState
    approval_state: ApprovalState
    attempt_count: int
    max_retry_count: int
    code_publication_state: PublicationState
    pass_fail_outcome: Outcome | None = None
    completion_basis: Basis | None = None
    code_ref: str | None = None
    """The newest code reference an event named: a SHA or `not_applicable`."""
    commit: str | None = None
    """`code_ref` of the last run_completed: the task's own unpublished or published commit."""
    anchor: str | None = None
    """`verify_anchor_sha` of the last verification."""
    base_sha: str | None = None
    """The commit the last attempt started from."""
    fork_point: str | None = None
    """The newest commit of the target in the history of `base_sha`: on top of it stands all that is not published."""
    run_token: str | None = None
    run_sequence: int = 0
    """Sequence of the last run_started; transcripts and refs are keyed by it."""
    approved_digest: str = ""
    """Of the approved text, of which `approved_revision` is the label; empty in logs of earlier versions."""
    renewed_from: str = ""
    """The archive of the stream before this one (R7): the same sequences and revision may have been used."""
    adopted: bool = False
    """Whether its issue was there before, so that its text is its author's: adopted, or divided by a document."""
    issue_digest: str = ""
    """Of the approved text of an issue that a document divides."""
    approvals: int = 0
    """How many task_approved events its stream has."""
    runs_started: int = 0
    given_back: int = 0
    free_event: str | None = None
    free_streak: int = 0
    """How many transitions in a row were free (R12), and which."""
    blocking_check: str | None = None
    not_before: str | None = None
    """When a block is retried at the latest (ISO 8601); `None` if only a person can clear it."""
    waits: int = 0
    """How many such blocks there were since work resumed."""
    fingerprint: str | None = None
    """Of the failing check of the last verification, if one failed (`domain/checks.py`)."""
    same_failures: int = 0
    """How many verifications in a row failed with it, since the last human decision."""
    failure_sequence: int | None = None
    """The event whose context the next attempt gets."""
    report_path: str | None = None
    request: int | None = None
    """The pull request whose merge accepts it, from its last verification that asked for acceptance (R15)."""
    before: TaskState | None = None
    """The state before a block or a re-approval; it may itself be on hold for the other reason."""
    problem: str | None = None
    """Why the log of this issue cannot be trusted; blocks like an event."""
    newer: bool = False
    """Whether the cause is only that a newer version wrote it: nothing is damaged then."""

    @property
    def done(self) -> bool:
        """Done by evidence in a log that can be trusted (docs/explanation/done.md)."""
        return self.phase is Phase.DONE and self.problem is None

    @property
    def at_rest(self) -> TaskState:
        """The state that it returns to when every hold on it is cleared."""
        return self.before.at_rest if self.before else self

    @property
    def way_out(self) -> str:
        """How to resolve the problem."""
        if self.newer:
            return "then look again"  # the problem text itself says upgrade
        return "`irontree checkup reconcile` records what is missing; then say how to go on"

    @property
    def way_to_plan(self) -> str:
        """What to do if no plan lists it: it was approved once, so the plan was deleted."""
        again = f"irontree task '#{self.issue_number}'" if self.adopted else "irontree task SPEC.md"
        return f"`irontree init --from-backup` brings its plan back; else have it approved anew: `{again}`"

    @property
    def started(self) -> bool:
        """Whether work on it has begun: an issue in progress comes first (R11)."""
        return self.runs_started > 0 and not self.done

    @property
    def total_attempts(self) -> int:
        """How many attempts the budget allows: 1 + max_retry_count."""
        return 1 + self.max_retry_count

    @property
    def repeated_failure(self) -> str:
        """Text saying that at least the last two attempts failed in the same way; empty if they did not."""
        return f"the last {self.same_failures} attempts failed in the same way" if self.same_failures > 1 else ""

    @property
    def may_retry(self) -> bool:
        """Whether a failure of this attempt leaves another one: attempt N does iff N <= max_retry_count (contract)."""
        return self.attempt_count <= self.max_retry_count

    @property
    def is_proposed(self) -> bool:
        """Whether it waits for the merge of its pull request."""
        return self.phase is Phase.PENDING and self.request is not None and self.problem is None

    @property
    def has_code(self) -> bool:
        """Whether the last completed run left a commit, its own or that of earlier work that is not published."""
        return self.commit not in (None, NOT_APPLICABLE)

    @property
    def began_from(self) -> str:
        """The newest commit of the target that its work stands on; empty before the first attempt."""
        return self.fork_point or self.base_sha or ""

    @property
    def adds_nothing(self) -> bool:
        """Whether the last completed run changed nothing; it may stand on earlier work that is not published."""
        return not self.has_code or self.commit == self.base_sha


# --- Labels are a function of the state (R16)


STAGE_TASK: Final = "stage:task"
STAGE_RUN: Final = "stage:run"
STAGE_VERIFY: Final = "stage:verify"
STAGE_DONE: Final = "stage:done"
PENDING: Final = "pending-acceptance"
ADOPTED: Final = "iron-tree:adopted"
NEEDS_BREAKDOWN: Final = "iron-tree:needs-breakdown"

COLORS: Final[dict[str, str]] = {
    ADOPTED: "0E8A16",
    NEEDS_BREAKDOWN: "D93F0B",
    STAGE_TASK: "FBCA04",
    STAGE_RUN: "1D76DB",
    STAGE_VERIFY: "5319E7",
    STAGE_DONE: "0E8A16",
    PENDING: "FBCA04",
}
"""All seven are created on first use (contract, labels)."""
DESCRIPTIONS: Final[dict[str, str]] = {
    ADOPTED: "A person wrote this issue, and Iron Tree works on it",
    NEEDS_BREAKDOWN: "Too large for one task: split it into smaller issues, then it can be worked on",
    STAGE_TASK: "Known to Iron Tree; no work has begun",
    STAGE_RUN: "An agent works on it, or is about to",
    STAGE_VERIFY: "There is work to check: the checks run, or a person looks at the result",
    STAGE_DONE: "Done: checked or accepted, and published",
    PENDING: "A person must decide: the newest comment says how to accept the work or send it back",
}
"""What a person reads beside each label; at most 100 characters, because GitHub takes no more."""
MANAGED: Final = frozenset({STAGE_TASK, STAGE_RUN, STAGE_VERIFY, STAGE_DONE, PENDING, NEEDS_BREAKDOWN})
"""The labels that follow the state; `iron-tree:adopted` stays once set, all other labels belong to the users.

An issue that needs a breakdown is not adopted, so no state calls for that label."""

AT_FIRST: Final = frozenset({STAGE_TASK})
"""The managed labels of a task that was just published."""

_BY_STAGE: Final = {
    "definition": STAGE_TASK,
    "decompose": STAGE_TASK,
    "run": STAGE_RUN,
    "verify": STAGE_VERIFY,
    "checkup": STAGE_DONE,
    "done": STAGE_DONE,
}


def labels_for(state: TaskState) -> frozenset[str]:
    """The managed labels of this state; a detour keeps the label of the state that the issue halted in."""
    at = state.at_rest
    approved = state.approvals > 0 and at.current_stage == "definition"
    stage = STAGE_RUN if approved else _BY_STAGE[at.current_stage]
    waits = {PENDING} if state.phase is Phase.PENDING else set()
    return frozenset({stage} | waits | ({ADOPTED} if state.adopted else set()))
