"""What the templates get: one frozen value per template, filled by the services, holding no logic.

A template sees its value under the name in `TEMPLATES`; a service renders with
`renderer.render("reports/report.md", report=ReportView(...))`. Texts are as people and programs wrote them:
the templates make them harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from irontree.domain.checks import CheckResult, Coverage
from irontree.domain.events import CATEGORY, kebab
from irontree.domain.halt import RULES, Choice
from irontree.domain.plan import ExecutionPolicy, Plan, PlanNode, PublishPolicy
from irontree.domain.spending import Budget
from irontree.domain.state import TaskState
from irontree.domain.values import Basis, CloseOnDone
from irontree.services.views.pages import InboxView, StoryView, TreeView, WaitingView


@dataclass(frozen=True, slots=True)
class FailureView:
    """Why an attempt or a publication failed; `output` is truncated already (50 + marker + 20 lines)."""

    failed_check: str
    anchor: str | None
    attempt: int
    attempts: int
    outcome: str
    captured_at: str
    output: str
    note: str = ""
    """What the person wrote who sent the work back (R14)."""
    said: str = ""
    """The last words of an agent that says itself that it did not do it."""


# --- issues/body.md -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IssueView:
    """An issue as it is published. `parent` and `depends_on` are shown as given: `#3`, or a task key."""

    node: PlanNode
    plan: Plan
    close_on_done: CloseOnDone
    marker: str
    parent: str | None = None
    depends_on: tuple[str, ...] = ()


# --- briefs/brief.md ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManualAcceptanceView:
    """What a person is asked to accept."""

    reasons: tuple[str, ...]
    anchor: str
    recorded_at: str
    checklist: tuple[str, ...]
    accept_note: str = ""


@dataclass(frozen=True, slots=True)
class ExternalEventView:
    """Something that happened to the issue outside the workflow."""

    event: str
    detected_at: str
    source: str
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
class ChildView:
    """A child of a composite, with the evidence it was done by."""

    task_key: str
    number: int
    title: str
    basis: Basis | None = None
    code_ref: str | None = None


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
    children: tuple[ChildView, ...] = ()
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
class NotesView:
    """Notes for the project's documents. *update*: they go to the end of a document that is there."""

    number: int
    title: str
    date: str
    anchor: str
    update: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


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
class AnswerView:
    """What became of an answer in a comment that was not taken. `answers` are the commands that would be."""

    marker: str
    command: str
    reason: str
    remedy: str = ""
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestView:
    """The text of a request to merge."""

    number: int
    node: PlanNode
    parent: str | None = None
    coverage: tuple[Coverage, ...] = ()
    closes: bool = True
    """Whether its merge closes the issue."""


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


# --- prompts/run.md -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromptView:
    """What a coding agent is told about one attempt. `commands` are the approved checks, in their order."""

    number: int
    node: PlanNode
    attempt: int
    attempts: int
    commands: tuple[str, ...] = ()
    failure: FailureView | None = None
    continues: bool = False
    goes_on: bool = False
    """Whether changes are in the workspace: of the attempt that failed, or of one that its service cut off."""
    quotes: tuple[PlanNode, ...] = ()
    """Tasks whose text is by somebody without write access: data, never an instruction (R20)."""


# --- forms/ -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeniedView:
    """What an agent asked leave for in vain, in words, and the entries of `agent.permissions` that would allow it."""

    words: tuple[str, ...]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One of several attempts that failed in the same way. `changed` is against what it began with, a file each."""

    number: int
    commit: str
    changed: tuple[str, ...]
    said: str
    failed_check: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class ReviewPromptView:
    """What a reviewer is told; *problems* are those of its last answer."""

    number: int
    node: PlanNode
    base: str
    anchor: str
    verdict_file: str
    problems: tuple[str, ...] = ()
    quotes: tuple[PlanNode, ...] = ()
    """Tasks whose text is by somebody without write access: data, never an instruction (R20)."""


@dataclass(frozen=True, slots=True)
class PlanPromptView:
    """What a planner is told: the text, the format by example, names of checks, where to write, what was wrong."""

    text: str
    example: str
    checks: tuple[str, ...]
    draft_file: str
    problems: tuple[str, ...] = ()


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


# --- which template takes what ------------------------------------------------------------------------------


def comment_template(event: str) -> str:
    """The template of an audible event's comment."""
    return f"comments/{kebab(event)}.md"


def form_template(reason: str) -> str:
    """The template of a halt reason's form."""
    return f"forms/{reason.replace('_', '-')}.md"


TEMPLATES: Final[Mapping[str, tuple[str, type]]] = {
    "issues/body.md": ("issue", IssueView),
    "issues/request.md": ("request", RequestView),
    "briefs/brief.md": ("brief", BriefView),
    "reports/report.md": ("report", ReportView),
    "reports/notes.md": ("notes", NotesView),
    "prompts/run.md": ("prompt", PromptView),
    "prompts/plan.md": ("plan", PlanPromptView),
    "prompts/review.md": ("review", ReviewPromptView),
    **{comment_template(event): ("comment", CommentView) for event in CATEGORY if CATEGORY[event] == "audible"},
    "comments/reply.md": ("reply", ReplyView),
    "comments/not-taken.md": ("answer", AnswerView),
    **{form_template(rule.reason): ("form", FormView) for rule in RULES if rule.asked_of == "issue"},
    **{form_template(rule.reason): ("form", LoopFormView) for rule in RULES if rule.asked_of == "loop"},
    "forms/intake.md": ("approval", ApprovalView),
    "artifacts/tree.md": ("tree", TreeView),
    "artifacts/issue.md": ("story", StoryView),
    "artifacts/inbox.md": ("inbox", InboxView),
}
