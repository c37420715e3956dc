"""What the larger templates get: frozen values, filled by the services, without logic.

Texts are as people and programs wrote them: the templates make them harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from irontree.domain.checks import CheckResult, Coverage
from irontree.domain.halt import Choice
from irontree.domain.plan import ExecutionPolicy, PlanNode, PublishPolicy
from irontree.domain.spending import Budget
from irontree.domain.state import TaskState
from irontree.domain.values import Basis
from irontree.services.views.history import AttemptView, DeniedView, FailureView

# --- briefs/brief.md ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManualAcceptanceView:
    """What a person is asked to accept."""

    reasons: tuple[str, ...]
    anchor: str
    recorded_at: str
    accept_note: str = ""


@dataclass(frozen=True, slots=True)
class ExternalEventView:
    """Something that happened to the issue outside the workflow."""

    event: str
    detected_at: str
    action: str


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """The last completed attempt. `commit` None: nothing had to be changed."""

    attempt: int
    attempts: int
    started_at: str
    completed_at: str
    commit: str | None
    files_changed: tuple[str, ...] = ()
    commands_run: tuple[str, ...] = ()
    notes: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """The completion evidence; which fields hold depends on the basis (contract, Verification Summary)."""

    basis: Basis
    recorded_at: str
    code_ref: str
    anchor: str | None = None
    results: tuple[CheckResult, ...] = ()
    reviewer: str | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True)
class BriefView:
    """Everything the brief shows; what has not happened yet is None or empty and shown as a placeholder."""

    number: int
    url: str
    node: PlanNode
    status: TaskState
    spec_path: str
    published_at: str
    parent: str | None = None
    commands: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    children: tuple[tuple[str, TaskState], ...] = ()
    """Title and state of each that has an issue."""
    halt_reason: str | None = None
    manual_close: str | None = None
    acceptance: ManualAcceptanceView | None = None
    failure: FailureView | None = None
    external: ExternalEventView | None = None
    execution: ExecutionView | None = None
    report_path: str | None = None
    docs_path: str | None = None
    evidence: EvidenceView | None = None
    outcome: str | None = None
    warnings: tuple[str, ...] = ()


# --- reports/report.md --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportView:
    """A verification report. `findings` and `warnings` are one line each; `note` is kept to the letter."""

    number: int
    title: str
    anchor: str
    outcome: str
    date: str
    environment: Mapping[str, str] = field(default_factory=dict)
    results: tuple[CheckResult, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    findings: tuple[str, ...] = ()
    claimed: str = ""
    """What the agent says of its attempt; empty where nobody asked one, or it says nothing."""
    observed: str = ""
    """What was seen of the same attempt."""
    warnings: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
    """What is spent of the limits that hold for the issue; empty where none was approved."""
    recipe: tuple[str, ...] = ()
    promoted_doc: str | None = None
    rationale: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class CommentView:
    """A status comment. `marker` is the hidden line that recognises it; without `action` the template's own stands."""

    number: int
    marker: str
    reason: str = ""
    action: str = ""
    attempt: int = 0
    attempts: int = 0
    request: str = ""
    """Where the request to merge is whose merge accepts the work."""
    answers: tuple[str, ...] = ()
    """The commands by which a comment answers, each as its usage has it; empty where nothing is asked."""
    gate: str = ""
    allows: tuple[str, ...] = ()
    """What `/allow` would approve, a rule each; empty where it is no answer."""


@dataclass(frozen=True, slots=True)
class ReplyView:
    """A reply to the person who wrote the issue. `to_check` is what only a person can judge.

    *remark*: whoever looked at it has said something, which is nobody's to repeat. *close_it*: they are to close it.
    """

    title: str
    marker: str
    basis: Basis | None
    to_check: tuple[str, ...] = ()
    remark: bool = False
    commit_url: str | None = None
    docs_url: str | None = None
    document: str | None = None
    close_it: bool = False
    close_command: str | None = None


# --- forms/ -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A task that cannot start, and why."""

    number: int
    title: str
    phase: str
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FormView:
    """The question of one issue. `reason` says why it is asked, `answer` how to answer from a terminal."""

    number: int
    title: str
    url: str
    reason: str
    choices: tuple[Choice, ...]
    answer: str
    remedy: str = ""
    attempt: int = 0
    attempts: int = 0
    anchor: str | None = None
    publish: PublishPolicy | None = None
    coverage: tuple[Coverage, ...] = ()
    results: tuple[CheckResult, ...] = ()
    files_changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: FailureView | None = None
    denied: DeniedView | None = None
    attempts_alike: tuple[AttemptView, ...] = ()
    report_path: str | None = None
    revision: str | None = None
    before: tuple[str, ...] = ()
    """What approving makes of removed tasks, and of finished ones that changed."""
    changes: tuple[str, ...] = ()
    """What changed since the last approval, one line each."""
    approval: ApprovalView | None = None
    """All that approving an adopted issue would approve."""
    request: str = ""
    """As in `CommentView`."""
    diff: str = ""
    gate: str = ""
    """Who decides, where not everybody does."""


@dataclass(frozen=True, slots=True)
class LoopFormView:
    """The question of a loop."""

    loop_id: str
    reason: str
    choices: tuple[Choice, ...]
    answer: str
    done: int
    total: int
    budget_used: int
    budget: int
    waiting: tuple[WaitingView, ...] = ()
    spent: Budget | None = None
    """Of which budget of the agents nothing is left; None where it is the transitions."""


@dataclass(frozen=True, slots=True)
class PlannedView:
    """A node as the approval shows it: what becomes of it, and what covers its criteria."""

    node: PlanNode
    depth: int
    status: str
    coverage: tuple[Coverage, ...] = ()
    number: int | None = None
    commands: tuple[str, ...] = ()
    """The checks that this task has besides the configured ones."""


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """The one approval: the frozen tree, every command, where code goes, and Loop Mode by its name."""

    repository: str
    revision: str
    spec_path: str
    tasks: tuple[PlannedView, ...]
    policy: ExecutionPolicy
    budget: int
    loop_mode: bool
    answer: str
    tracker: str = ""
    """The address of the repository whose issues, comments and labels are written; empty for files."""
    estimate: str = ""
    trivial: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    quotes: tuple[PlanNode, ...] = ()
    """Tasks whose text is by somebody without write access: data, never an instruction (R20)."""
    before: tuple[str, ...] = ()
    """What becomes of removed tasks, and of finished ones that changed."""
    changes: tuple[str, ...] = ()
    """What changed since the last approval, one line each."""
    diff: str = ""
    loop_id: str = ""
    goal: str = ""
    intent: str = ""
    """What was typed."""
    query: str = ""
    """What that was resolved to."""
    excluded: tuple[str, ...] = ()
    """What was asked for and is left out, with the reason."""
    questions: tuple[str, ...] = ()
    """What has to be answered in the issues before this can be approved."""
    in_full: bool = False
    """Whether the texts of the tasks are shown: an issue, unlike a document, may be changed by others meanwhile."""
