"""`.mino/config.yml`: every setting, its default and what it means, as one frozen model; `config_file.py` reads it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from irontree.domain.agents import AgentSpec, Member, ReviewerSpec
from irontree.domain.budgets import BudgetPolicy, approved_budgets
from irontree.domain.checks import DETECTION
from irontree.domain.places import OPEN, PlaceSpec
from irontree.domain.plan import ExecutionPolicy, OnProtected, PublishPolicy, Shell, WorkspacePolicy
from irontree.domain.settings import (
    AgentAdapter,
    ApiUrl,
    Automations,
    BestKind,
    CommentSection,
    Container,
    GateSettings,
    InnerPath,
    IssueSection,
    LoopSection,
    RefName,
    Report,
    RepositoryName,
    RunSection,
    Sandbox,
    Toolchain,
    VariableName,
    WebAddress,
    approved_gates,
    approved_places,
)
from irontree.domain.values import PromotionPolicy, Section
from irontree.errors import ConfigRefused


def _words(value: object) -> object:
    """Split a command given as one string as a shell would; keep a list as it is."""
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _checks(value: object) -> object:
    """Name a check given as one string by its command."""
    if not isinstance(value, (list, tuple)):
        return value
    return tuple({"name": item, "run": item} if isinstance(item, str) else item for item in value)


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_CHECK = {"type": "object", "required": ["name", "run"], "properties": {"name": _TEXT, "run": _TEXT}}
Words = Annotated[tuple[str, ...], BeforeValidator(_words), WithJsonSchema({"anyOf": [_TEXT, _TEXTS]})]
CheckCommands = Annotated[
    tuple[Shell, ...],
    BeforeValidator(_checks),
    WithJsonSchema({"type": "array", "items": {"anyOf": [_TEXT, _CHECK]}}),
]


class Agent(Section, AgentSpec):
    """The program that changes the code."""

    called: ClassVar[tuple[str, ...]] = ()  # type: ignore[misc]  # no key of the file
    place: ClassVar[PlaceSpec] = OPEN  # type: ignore[misc]

    adapter: AgentAdapter = Field(
        default="command", description="What drives it: any `command`, or the name of an agent that is known here."
    )
    command: Words = Field(
        default=(), description="Its command line, as one string or as a list of words; of a known agent the program."
    )
    arguments: Words = Field(default=(), description="More words for the command line of a known agent.")
    environment: tuple[VariableName, ...] = Field(
        default=(), description="Names of environment variables that it may see."
    )


class Reviewer(Agent, ReviewerSpec):
    """An agent that looks at the change once the checks have passed, before it is published."""

    @model_validator(mode="after")
    def _has_a_program(self) -> Reviewer:
        if self.program is None:
            raise ValueError(f"the reviewer {self.name} has no command")
        return self


class TeamMember(Reviewer, Member):
    """An agent of a team, which works on tasks or looks at work by their type."""


Named = Shell | Reviewer


class VerifySection(Section):
    """How the repository's own checks are run."""

    commands: CheckCommands = Field(
        default=(),
        description="Shell commands, or `{name, run}` for criteria that say `(check: name)`. They replace detection.",
    )
    seconds: int = Field(default=1800, gt=0, description="Limit of each command.")
    browser: str | None = Field(default=None, description="Looks at browser checks: exit 0 passes, 77 asks a person.")
    preflight: bool = Field(
        default=False,
        description="Whether the commands run once before any agent works, where they will run. A person is asked "
        "about those that fail without any work, cannot be run, or pass whatever happens.",
    )
    detection: bool = Field(
        default=True, description="Whether files such as package.json may say what to run where nothing else does."
    )
    protected: OnProtected = Field(
        default="ask",
        description="Where a task changes what defines its checks (existing tests, build and test configuration, files "
        "that commands name): a person is asked, the attempt has failed, or it is only told.",
    )
    protected_files: tuple[str, ...] = Field(
        default=(), description="Globs of more files that define the checks; `*` stands for anything, `/` too."
    )
    unprotected_files: tuple[str, ...] = Field(
        default=(), description="Globs of files that do not, although they look like it."
    )
    reviewers: tuple[Reviewer, ...] = Field(
        default=(),
        description="Agents that look at the change once the checks have passed: `name`, and the keys of `agent`.",
    )

    @field_validator("commands", "reviewers")
    @classmethod
    def _names_differ(cls, named: tuple[Named, ...]) -> tuple[Named, ...]:
        names = [each.name for each in named]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two entries have the name {', '.join(sorted(repeated))}")
        return named


class WorkspaceSection(Section, WorkspacePolicy):
    """The private workspaces in which work is done."""

    place: ClassVar[PlaceSpec] = OPEN  # type: ignore[misc]  # no key of the file
    cache_paths: tuple[InnerPath, ...] = Field(
        default=(),
        alias="cache",
        description="What `setup` makes: kept, and copied into new workspaces. `setup` runs only where dependencies "
        "changed then. A name such as `node_modules` applies to every folder. Unset: it runs in each new workspace.",
    )
    copy_files: tuple[InnerPath, ...] = Field(
        default=(), alias="copy", description="Untracked files of the user's checkout that work needs, such as `.env`."
    )


class Publish(Section, PublishPolicy):
    """Where verified code goes."""

    branch_from: ClassVar[None] = None  # type: ignore[misc]  # no key of the file
    merge_into: ClassVar[None] = None  # type: ignore[misc]
    type_labels: ClassVar[bool] = False  # type: ignore[misc]
    remote: RefName | None = Field(
        default=None,
        description="Unset: `origin`, else the first one, at the first approval; without any, publication is local.",
    )
    target_branch: RefName | None = Field(  # type: ignore[assignment]  # an approved policy names one
        default=None, description="Unset: the branch that is checked out at the first approval."
    )


class ForgeSection(Section):
    """Where issues live. Tokens are never here: they come from the environment or a block."""

    adapter: Literal["local", "github", "gitea"] = Field(
        default="local",
        description="`github`, `gitea` (Forgejo too), or `local`: Markdown files under `.mino/forge/`.",
    )
    repository: RepositoryName | None = Field(default=None, description="`OWNER/NAME`. Unset: as the git remote says.")
    url: WebAddress | None = Field(
        default=None,
        description="The forge's own address, such as `https://git.example.org`. Unset: as the git remote says.",
    )
    ca_file: Path | None = Field(
        default=None,
        strict=False,
        description="Certificates (PEM) to trust instead of the system's; relative to the repository.",
    )


class Prefect(Section):
    """Where flows run."""

    api_url: ApiUrl | None = Field(
        default=None, description="Unset: `PREFECT_API_URL` of the environment, else a private server on this machine."
    )


class Config(Section):
    """Everything that `.mino/config.yml` can say."""

    verify: VerifySection = VerifySection()
    issue: IssueSection = IssueSection()
    report: Report = Report()
    comment: CommentSection = CommentSection()
    agent: Agent = Agent()
    workspace: WorkspaceSection = WorkspaceSection()
    container: Container = Container()
    sandbox: Sandbox = Sandbox()
    publish: Publish = Publish()
    forge: ForgeSection = ForgeSection()
    gates: GateSettings = GateSettings()
    loop: LoopSection = LoopSection()
    run: RunSection = RunSection()
    budgets: BudgetPolicy = BudgetPolicy()
    prefect: Prefect = Prefect()
    automations: Automations = Automations()
    toolchain: Toolchain = Toolchain()
    team: tuple[TeamMember, ...] = Field(default=(), description="Agents with a name, a role and types of tasks.")

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, data: object) -> object:
        """As every section; but an empty `toolchain:` says that there is one."""
        named = isinstance(data, Mapping) and "toolchain" in data and data["toolchain"] is None
        return super()._normalised({**data, "toolchain": {}} if named else data)  # type: ignore[operator, dict-item]

    @model_validator(mode="after")
    def _members_differ(self) -> Self:
        """By name from each other and from the reviewers, and by account: reports and comments name them."""
        names = [each.name for each in (*self.verify.reviewers, *self.team)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two agents have the name {', '.join(repeated)}")
        known: dict[str, str] = {}
        for member in self.team:
            other = known.setdefault((member.account or "").casefold(), member.name)
            if member.account and other != member.name:
                raise ValueError(f"{other} and {member.name} have the same account: {member.account}")
        return self

    @model_validator(mode="after")
    def _one_leads(self) -> Self:
        """At most one, and one where only the lead discusses."""
        leads = [member.name for member in self.team if member.lead]
        if len(leads) > 1:
            raise ValueError(f"{' and '.join(leads)} both lead the team: leave `lead` out of all members but one")
        if self.toolchain.discussion == "lead" and not leads:
            raise ValueError("toolchain.discussion is `lead`, and no member of the team has `lead: true`")
        return self

    @property
    def has_toolchain(self) -> bool:
        """Whether the file has that section, be it an empty one."""
        return "toolchain" in self.model_fields_set

    def policy(self, remote: str | None, target_branch: str, best: BestKind = lambda: "none") -> ExecutionPolicy:
        """What a person approves (R6); *remote*, *target_branch* and *best* hold where the file names none.

        Raises ConfigRefused for what cannot be done yet: it must not be approved.
        """
        if self.workspace.kind != "clone":
            raise ConfigRefused("workspace.kind: none is not there yet", remedy="leave the key out of .mino/config.yml")
        if self.publish.mode == "pull_request" and not (self.publish.remote or remote):
            raise ConfigRefused(
                "publish.mode: pull_request needs a git remote to push branches to",
                remedy="add one (`git remote add origin …`), or set publish.mode to direct",
            )
        if self.publish.merge and (self.publish.mode != "pull_request" or self.forge.adapter == "local"):
            raise ConfigRefused(
                "publish.merge: approved needs requests on a forge that has reviews",
                remedy="set publish.mode to pull_request and forge.adapter to github or gitea, or leave the key out",
            )
        agents, checks = approved_places(self.sandbox, self.container, best)
        return ExecutionPolicy(
            agent=AgentSpec(**self.agent.model_dump(), place=agents),
            checks=self.verify.commands,
            detection=DETECTION if self.verify.detection and not self.verify.commands else (),
            check_seconds=self.verify.seconds,
            browser=self.verify.browser or None,
            preflight=self.verify.preflight,
            protected=self.verify.protected,
            protected_files=self.verify.protected_files,
            unprotected_files=self.verify.unprotected_files,
            reviewers=tuple(ReviewerSpec(**reviewer.model_dump(), place=agents) for reviewer in self.verify.reviewers),
            workspace=WorkspacePolicy(**self.workspace.model_dump(), place=agents),
            place=checks,
            publish=PublishPolicy(
                mode=self.publish.mode,
                remote=self.publish.remote or remote,
                target_branch=self.publish.target_branch or target_branch,
                reviewers=self.publish.reviewers or None,
                assignees=self.publish.assignees or None,
                subject=self.publish.subject,
                merge=self.publish.merge,
                type_labels=self.has_toolchain,
            ),
            promotion=PromotionPolicy(mode=self.report.promotion, docs_path=self.report.docs_path.rstrip("/")),
            max_retry_count=self.run.max_retry_count,
            gates=approved_gates(self.gates.model_dump(), known=self.forge.adapter != "local"),
            budgets=approved_budgets(self.budgets.model_dump()),
            same_failure=self.run.same_failure or None,
            on_halt=self.loop.on_halt,
            discussion=self.toolchain.discussion,
            team=tuple(Member(**member.model_dump(), place=agents) for member in self.team),
        )
