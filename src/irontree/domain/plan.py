"""What a person approved (R6): the tree, its commands, permissions and where its code goes, as one frozen value."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator

from irontree.domain.agents import AgentSpec, Member, ReviewerSpec, leaves_a_type
from irontree.domain.budgets import BudgetPolicy
from irontree.domain.gates import Gates
from irontree.domain.instructions import Instructions
from irontree.domain.places import Placed
from irontree.domain.task_types import TaskType
from irontree.domain.values import (
    Discussion,
    Executability,
    PromotionPolicy,
    ProtocolVersion,
    Sha,
    Shape,
    SpecRevision,
    TaskKey,
    Value,
    is_default,
    is_empty,
    is_unset,
)
from irontree.domain.workflow.step import ShellLine, StepSpec

OnHalt = Literal["stop", "go_on"]
OnProtected = Literal["ask", "refuse", "allow"]


class Criterion(Value):
    """One acceptance criterion and what it names as its cover (R18).

    `text` is what a person reads, without the marks. `check` names a configured check (`(check: NAME)`),
    `command` is a trailing `` `$ command` ``, `manual` says that only a person can judge it (`(manual)`).
    """

    text: str = Field(min_length=1)
    manual: bool = False
    check: str | None = None
    command: str | None = None


class PlanNode(Value):
    """One node of the tree, complete: nothing about it is read from the forge again."""

    task_key: TaskKey
    title: str = Field(min_length=1)
    type: TaskType = "feature"
    shape: Shape = "atomic"
    executability: Executability = "executable"
    parent: TaskKey | None = None
    depends_on: tuple[TaskKey, ...] = ()
    priority: int | None = None
    target_files: tuple[str, ...] = ()
    description: str = ""
    criteria: tuple[Criterion, ...] = ()
    verification: tuple[str, ...] = ()
    line: int | None = None
    outsider: str = ""
    """Who wrote its text, if that is somebody without write access: it is data wherever it is shown (R20)."""
    open_questions: tuple[str, ...] = ()
    """What an adopted issue does not say; it is not approved before they are answered there."""
    gates: Gates | None = Field(default=None, exclude_if=is_unset)
    """Its own gates in place of the policy's; see `ExecutionPolicy.gates_of`."""
    max_retry_count: int | None = Field(default=None, ge=0, exclude_if=is_unset)
    """Its own number of retries in place of the policy's; see `ExecutionPolicy.retries_of`."""
    step: StepSpec | None = Field(default=None, exclude_if=is_unset)
    """What else is approved of a step of a workflow file; None for every other task."""

    @property
    def is_checked_as_configured(self) -> bool:
        """Whether the checks of the repository judge it, and not its own alone."""
        return self.executability == "executable" and self.step is None

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that its own text names, those of criteria included."""
        own = (*self.verification, *(criterion.command for criterion in self.criteria if criterion.command))
        return (*own, *(self.step.commands if self.step else ()))

    @property
    def text(self) -> str:
        """Title, description and criteria, as Markdown."""
        criteria = "\n".join(f"- {criterion.text}" for criterion in self.criteria)
        return "\n\n".join(filter(None, (self.title, self.description, criteria)))

    @property
    def digest(self) -> str:
        """64 hex over everything a person approved about this node (R7); its line is no part of it."""
        return canonical_digest(self.model_dump(exclude={"line"}))


class Shell(ShellLine, Value):
    """A check that is a shell command, and the name by which criteria cite it: it passes with exit code 0."""

    name: str = Field(min_length=1)
    run: str = Field(min_length=1)


class DetectionRow(Value):
    """`if these files are there: run these` for repositories without configured commands."""

    files: tuple[str, ...]
    commands: tuple[Shell, ...]


Login = Annotated[str, Field(pattern=r"^[\w][\w.-]*(/[\w][\w.-]*)?$", max_length=200)]
"""An account on the forge, or a team of an organisation."""


class PublishPolicy(Value):
    """Where verified code goes. `remote` None: publication is the fast-forward of the local branch."""

    mode: Literal["direct", "pull_request"] = Field(
        default="direct", description="Push to the target branch, or open a request to merge into it."
    )
    remote: str | None = None
    target_branch: str
    reviewers: tuple[Login, ...] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Who is asked to review a pull request: accounts, and teams as `org/team`. "
        "Owners in CODEOWNERS are asked by the forge itself.",
    )
    assignees: tuple[Login, ...] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Accounts that are assigned to the issues and pull requests that are made.",
    )
    merge: Literal["approved"] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="`approved`: merge a request once a person approved it and CI is green. Unset: people merge.",
    )
    subject: str | None = Field(
        default=None,
        exclude_if=is_unset,
        description="The first line of a commit, such as `{kind}: {title}`: `{title}`, `{kind}` (`feat` or `fix`), "
        "`{number}` and `{key}` are filled in, and the criteria stand below it. Unset: `[run] #{number}: {title}`, "
        "and no criteria.",
    )
    branch_from: Sha | None = Field(default=None, exclude_if=is_unset)
    """The commit that the target starts from as long as it does not exist: the first publication makes it."""
    merge_into: str | None = Field(default=None, exclude_if=is_unset)
    """The branch that the target stands in for, if it is a plan's own: there its work goes in the end, as a whole."""

    type_labels: bool = Field(default=False, exclude_if=is_empty)
    """Whether issues get `type/…` labels, and branches the words of these; see `TaskTypeProfile`."""

    @field_validator("subject")
    @classmethod
    def _is_a_line(cls, subject: str | None) -> str | None:
        is_line = subject is None or re.fullmatch(r"(?:[^{}\n]|\{(?:title|kind|number|key)\})+", subject)
        if not is_line or (subject and "{title}" not in subject):
            raise ValueError("one line is expected, with {title} in it, and in braces {kind}, {number} and {key} alone")
        return subject

    @property
    def pushes(self) -> bool:
        """Whether verified code is pushed to the target: a plan's own branch is proposed as a whole, if at all."""
        return self.mode == "direct" or self.merge_into is not None

    def on_branch(self, branch: str) -> PublishPolicy:
        """The same for another branch, which is pushed to directly: that of a request."""
        return self.model_copy(
            update={"mode": "direct", "target_branch": branch, "branch_from": None, "merge_into": None}
        )

    def on_own_branch(self, branch: str, branch_from: str | None = None) -> PublishPolicy:
        """The same for a plan's own branch, which starts at *branch_from* if that is given and it is not there yet."""
        own = {"target_branch": branch, "branch_from": branch_from, "merge_into": self.target_branch}
        return self.model_copy(update=own)

    def where(self, approved: PublishPolicy | None) -> PublishPolicy:
        """These settings with what *approved* has, and a configuration of today must not change: names of branches.

        That is a branch of its own, if any, and the words by which requests find theirs.
        """
        if approved is None:
            return self
        own = ("target_branch", "branch_from", "merge_into") if approved.merge_into else ()
        return self.model_copy(update={name: getattr(approved, name) for name in (*own, "type_labels")})


class WorkspacePolicy(Placed):
    """How the private workspaces are prepared (R4); the place is that of `setup`."""

    setup: tuple[str, ...] = Field(
        default=(), description="Shell commands that make a fresh checkout ready, such as `npm ci`."
    )
    cache_paths: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """What `setup` makes and may be copied into later workspaces; with any, it runs only to make them."""
    copy_files: tuple[str, ...] = ()
    pristine: bool = Field(
        default=False, description="Whether ignored files are removed too between the attempts of an issue."
    )
    filters: tuple[str, ...] = Field(
        default=(),
        exclude_if=is_empty,
        description="Filters and merge drivers of git's settings that may run on what an agent writes, such as `lfs`.",
    )
    kind: Literal["clone", "none"] = Field(
        default="clone",
        description="`none` will work in the user's checkout, for repositories that cannot be cloned; refused so far.",
    )


class ExecutionPolicy(Placed):
    """The part of the configuration that a person approves; a later difference needs approval again.

    The place is that of the checks; the agents and the workspace have their own.
    """

    agent: AgentSpec
    checks: tuple[Shell, ...] = ()
    detection: tuple[DetectionRow, ...] = ()
    check_seconds: int = Field(default=1800, gt=0)
    browser: str | None = Field(default=None, exclude_if=is_unset)
    """The command that looks in a browser for a step of a workflow file; None: a person does."""
    preflight: bool = Field(default=False, exclude_if=is_empty)
    """Whether the checks run once before any work, and a person is asked about those that fail then."""
    protected: OnProtected = Field(default="ask", exclude_if=is_default("ask"))
    """What happens where a task changes what defines its checks (R18)."""
    protected_files: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    unprotected_files: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    reviewers: tuple[ReviewerSpec, ...] = ()
    """Asked in order, once the checks have passed."""
    team: tuple[Member, ...] = Field(default=(), exclude_if=is_empty)
    """Who works on a task, and looks at work, by the task's type; `agent` and `reviewers` are for all types."""
    instructions: tuple[Instructions, ...] = Field(default=(), exclude_if=is_empty)
    """The steps that agents are told, and the forms of their reports."""
    discussion: Discussion | None = Field(default=None, exclude_if=is_unset)
    """Who of the team is asked about new issues; None: nobody."""
    workspace: WorkspacePolicy = Field(default_factory=WorkspacePolicy)
    publish: PublishPolicy
    promotion: PromotionPolicy = Field(default_factory=PromotionPolicy)
    max_retry_count: int = Field(default=3, ge=0)
    on_halt: OnHalt = Field(default="stop", exclude_if=is_default("stop"))
    """Whether a task that waits for a person lets others go on (R17)."""
    same_failure: int | None = Field(default=None, ge=2, exclude_if=is_unset)
    """After how many equal failures in a row a person is asked; None: never before the attempts are used up."""
    budgets: BudgetPolicy | None = Field(default=None, exclude_if=is_unset)
    """What agents may spend; None: nothing is counted."""
    gates: Gates | None = Field(default=None, exclude_if=is_unset)
    """Who has to let work go on; None: there are none."""

    def author_of(self, node: PlanNode) -> AgentSpec:
        """The agent that works on that node."""
        return self.author_for(node.type)

    def author_for(self, task_type: str) -> AgentSpec:
        """The agent that works on tasks of that type."""
        return next((member for member in self.team if member.takes("author", task_type)), self.agent)

    def reviewers_of(self, node: PlanNode) -> tuple[ReviewerSpec, ...]:
        """Who looks at that node's work, in order."""
        return (*self.reviewers, *(member for member in self.team if member.takes("reviewer", node.type)))

    @property
    def lead(self) -> Member | None:
        """Who leads the team, if anybody does."""
        return next((member for member in self.team if member.lead), None)

    def called_for(self, node: PlanNode) -> tuple[AgentSpec, ...]:
        """The agents that are called for that node: its author, and who looks at its work."""
        return (self.author_of(node), *self.reviewers_of(node))

    @property
    def needs_agent(self) -> bool:
        """Whether `agent` works on any type of task."""
        return leaves_a_type(self.team)

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """Every agent that may be started."""
        return (*((self.agent,) if self.needs_agent else ()), *self.reviewers, *self.team)

    @property
    def discussing(self) -> tuple[Member, ...]:
        """Who is asked about new issues, in order."""
        asked = {"everybody": lambda each: each.discusses, "lead": lambda each: each.lead, None: lambda _: False}
        return tuple(filter(asked[self.discussion], self.team))

    def is_agents(self, login: str | None) -> bool:
        """Whether that account on the forge is an agent's, and so no person's (T3)."""
        return login is not None and login.casefold() in {(each.account or "").casefold() for each in self.team}

    def gates_of(self, node: PlanNode) -> Gates | None:
        """Who has to let work on that node go on; None: whoever may answer."""
        return self.gates if node.gates is None else node.gates

    def retries_of(self, node: PlanNode) -> int:
        """How often that node is tried again after a failure, before a person is asked."""
        return self.max_retry_count if node.max_retry_count is None else node.max_retry_count

    @property
    def digest(self) -> str:
        """64 hex over every approved setting."""
        return canonical_digest(self.model_dump())


class Approval(Value):
    """Who approved, when (ISO 8601 UTC), and through which channel."""

    by: str = Field(min_length=1)
    at: str
    channel: str


class Adoption(Value):
    """An existing issue as it was when it was taken in (ISO 8601 UTC): its text stays its author's."""

    issue_number: int = Field(gt=0)
    url: str
    title: str
    at: str
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", exclude_if=is_unset)
    """Of title and text, where the plan's own is that of a document."""


class Plan(Value):
    """A file in `.mino/plans/`: with the events, the truth."""

    version: ProtocolVersion = 1
    spec_revision: SpecRevision
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", exclude_if=is_unset)
    """Of the text whose first 8 digits are `spec_revision`: what plans are compared by. None in earlier versions."""
    spec_path: str
    source: str
    nodes: tuple[PlanNode, ...]
    kept: tuple[TaskKey, ...] = ()
    """Keys of nodes that were no longer in the document, and that the person kept (R7)."""
    reopened: tuple[TaskKey, ...] = ()
    """Keys of nodes that were done, and that begin again with this plan (R7)."""
    policy: ExecutionPolicy
    loop_mode: bool = True
    budget_max_transitions: int = Field(gt=0)
    adoption: Adoption | None = None
    """Set for an adopted issue, which has a plan of its own; the issues of all other plans are made from them."""
    divides: Adoption | None = Field(default=None, exclude_if=is_unset)
    """Set for a document that divides an existing issue: that is the first node, and the tasks are its parts."""
    approval: Approval | None = None
    """None: the issue is taken in, and nobody has approved it yet."""
    imported: bool = Field(default=False, exclude_if=is_empty)
    """Whether it came with an archive that nobody vouched for: its approval says who gave it elsewhere, and permits
    nothing here (R21)."""

    @property
    def in_force_since(self) -> str:
        """When it was approved, or, before that, taken in; of two plans for one task the later counts."""
        return self.approval.at if self.approval else self.adoption.at if self.adoption else ""

    @property
    def approved_by(self) -> str:
        """Who approved it; empty if nobody has."""
        return self.approval.by if self.approval else ""

    def node(self, task_key: str) -> PlanNode:
        """The node with that key; KeyError if the plan has none."""
        return self._by_key[task_key]

    def parts(self, task_key: str) -> tuple[PlanNode, ...]:
        """The children of a container, in the order of the document."""
        return self._by_parent.get(task_key, ())

    @cached_property
    def _by_key(self) -> dict[str, PlanNode]:
        return {node.task_key: node for node in reversed(self.nodes)}

    @cached_property
    def _by_parent(self) -> dict[str, tuple[PlanNode, ...]]:
        found: dict[str, list[PlanNode]] = {}
        for node in self.nodes:
            found.setdefault(node.parent or "", []).append(node)
        return {key: tuple(nodes) for key, nodes in found.items() if key}


def canonical_json(value: object) -> str:
    """Sorted keys, no white space, not ASCII-escaped (R8)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_digest(value: object) -> str:
    """SHA-256 of the canonical JSON, 64 hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
