"""`.mino/config.yml`: every setting, its default and what it means, as one frozen model.

The only module that imports ruamel.yaml (YAML 1.2, comments survive), and only when it reads or writes:
loading it takes as long as everything else that a read-only verb needs.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, field_validator, model_validator

from irontree.domain.budgets import BudgetPolicy, approved_budgets
from irontree.domain.checks import DETECTION
from irontree.domain.permissions import PermissionRule
from irontree.domain.places import OPEN, PlaceSpec
from irontree.domain.plan import (
    AgentSpec,
    ExecutionPolicy,
    Member,
    OnProtected,
    PromotionPolicy,
    PublishPolicy,
    ReviewerSpec,
    Shell,
    WorkspacePolicy,
)
from irontree.domain.settings import (
    SHOWN_IN_FULL,
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
    unshown_settings,
)
from irontree.domain.text import nearest
from irontree.domain.values import FROM_FILE, Section
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.files import swap

if TYPE_CHECKING:
    from ruamel.yaml import YAML


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
                type_labels=self.has_toolchain,
            ),
            promotion=PromotionPolicy(mode=self.report.promotion, docs_path=self.report.docs_path.rstrip("/")),
            max_retry_count=self.run.max_retry_count,
            gates=approved_gates(self.gates.model_dump(), known=self.forge.adapter != "local"),
            budgets=approved_budgets(self.budgets.model_dump()),
            same_failure=self.run.same_failure or None,
            on_halt=self.loop.on_halt,
            team=tuple(Member(**member.model_dump(), place=agents) for member in self.team),
        )


def load_config(path: Path) -> Config:
    """Read the file; without one everything has its default. Raises ConfigRefused naming every key that is wrong."""
    data = _bytes(path)
    return Config() if data is None else read_config(data, str(path))


def _bytes(path: Path) -> bytes | None:
    """The file's content; None without one. Raises EnvironmentRefused for what is no file: a pipe would block."""
    try:
        if path.exists() and not path.is_file():
            raise EnvironmentRefused(f"{path}: is no file", remedy="move it away, or put a file in its place")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="make the file readable") from error


@lru_cache(maxsize=16)
def read_config(data: bytes | str, name: str) -> Config:
    """Read YAML text (cached); *name* is its name in messages."""
    return _validated(_parsed(data, name), name)


def write_config(path: Path, values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> None:
    """Set keys (`publish.remote`) in the file, keeping its comments and everything else; create it if need be.

    *comments* go above new keys and say where their values come from. Raises ConfigRefused, before anything is
    written, if the result would not be accepted.
    """
    document = _parsed(_bytes(path) or b"", str(path))
    for dotted, value in values.items():
        _set(document, dotted.split("."), value, (comments or {}).get(dotted))
    _write(path, document, given=values)


def set_setting(path: Path, name: str, text: str) -> None:
    """Set one key from the *text* of a command line, keeping the file's comments; raises as `write_config`.

    Where the setting takes no text it is read as YAML: a number, true, a list; `null` and `[…]` always are.
    """
    if text[:1] not in ("[", "{") and text not in ("null", "~"):
        with suppress(ConfigRefused):  # what is wrong is said of the value that the text stands for
            return write_config(path, {name: text})
    return write_config(path, {name: _parsed(f"value: {text}", name)["value"]})


def add_permissions(path: Path, rules: Sequence[PermissionRule]) -> None:
    """Append *rules* to `agent.permissions` in the file, keeping the rest; raises as `write_config`."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: PLC0415

    document = _parsed(_bytes(path) or b"", str(path))
    if not isinstance(document.get("agent"), Mapping):
        document["agent"] = CommentedMap()
    if not document["agent"].get("permissions"):
        document["agent"]["permissions"] = CommentedSeq()
    for rule in rules:
        entry = CommentedMap(rule.model_dump())
        entry.fa.set_flow_style()
        document["agent"]["permissions"].append(entry)
    _write(path, document)


def _write(path: Path, document: Any, given: Collection[str] = ()) -> None:
    _validated(document, str(path), given)
    text = io.StringIO()
    _yaml().dump(document, text)
    try:
        swap(path, text.getvalue().encode())
    except OSError as error:
        raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="make the folder writable") from error


def _yaml() -> YAML:
    from ruamel.yaml import YAML  # noqa: PLC0415  (see the module's docstring)

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _parsed(data: bytes | str, name: str) -> Any:
    """The document with its comments and line numbers; an empty one is an empty mapping."""
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    try:
        document = _yaml().load(data)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigRefused(f"{name}, line {line}: {error.problem}", remedy="put the YAML right") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigRefused(f"{name}: not readable as YAML text", remedy="save the file as UTF-8") from error
    except RecursionError:
        raise ConfigRefused(f"{name}: nested too deeply", remedy="`irontree config schema` lists every key") from None
    if document is None:
        return CommentedMap()
    if not isinstance(document, CommentedMap):
        raise ConfigRefused(f"{name}: expected keys such as `verify:`", remedy="see `irontree config schema`")
    return document


def _validated(document: Any, name: str, given: Collection[str] = ()) -> Config:
    """The settings of *document*; a key that is *given* from elsewhere stands in no line of the file."""
    try:
        config = Config.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        found = error.errors(include_url=False)
        lines = [f"{_place(document, item['loc'], name, given)}{_what(item)}" for item in found]
        raise ConfigRefused("\n".join(lines), remedy="`irontree config schema` lists every key") from error
    if hidden := dict(unshown_settings(config.model_dump(by_alias=True, exclude_unset=True))):
        lines = [f"{_place(document, location, name, given)}{what}" for location, what in hidden.items()]
        raise ConfigRefused("\n".join(lines), remedy=SHOWN_IN_FULL)
    return config


# YAML names for pydantic's Python terms.
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "model_type": "keys below it",
    "string_type": "text",
    "tuple_type": "a list",
}


def _what(item: Mapping[str, Any]) -> str:
    """One of pydantic's findings in words for the file's author."""
    location = tuple(str(part) for part in item["loc"])
    key = ".".join(location)
    match item["type"]:
        case "extra_forbidden":
            guess = nearest(location[-1], _known_keys(location[:-1]))
            meant = f"; did you mean `{'.'.join((*location[:-1], guess))}`?" if guess else ""
            return f"unknown key `{key}`{meant}"
        case "missing":
            return f"`{key}` is missing"
        case "value_error":
            return f"{f'`{key}`: ' if key else ''}{item['msg'].removeprefix('Value error, ')}"
        case kind:
            expected = _EXPECTED.get(kind) or item["msg"].removeprefix("Input should be ")
            found = list(item["input"]) if isinstance(item["input"], tuple) else item["input"]
            return f"`{key}`: expected {expected}, got {found!r}"


def _known_keys(location: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the section at *location*."""
    section: type[Section] = Config
    for part in location:
        field = section.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, Section):
            return tuple(Shell.model_fields)
        section = field.annotation
    return section.known_keys()


def _place(document: Any, location: tuple[int | str, ...], name: str, given: Collection[str]) -> str:
    """The file and the line of the deepest part of *location* that is there; empty for what is *given*."""
    key = f"{'.'.join(map(str, location))}."
    if any(f"{each}.".startswith(key) or key.startswith(f"{each}.") for each in given):
        return ""
    line = 0
    node = document
    for part in location:
        try:
            line = node.lc.data[part][0]
            node = node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return f"{name}, line {line + 1}: "


def _set(document: Any, parts: list[str], value: Any, comment: str | None) -> None:
    from ruamel.yaml.comments import CommentedMap  # noqa: PLC0415

    *sections, key = parts
    for section in sections:
        if not isinstance(document.get(section), Mapping):
            document[section] = CommentedMap()
        document = document[section]
    is_new = key not in document
    document[key] = value
    if comment and is_new:
        document.yaml_set_comment_before_after_key(key, before=comment, indent=2 * len(sections))
