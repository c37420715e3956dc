"""What the larger templates get: frozen values, filled by the services, without logic.

Texts are as people and programs wrote them: the templates make them harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

from irontree.domain.checks import CheckResult, Coverage
from irontree.domain.halt import Choice
from irontree.domain.plan import ExecutionPolicy, PlanNode, PublishPolicy
from irontree.services.views.history import AttemptView, DeniedView, FailureView


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
