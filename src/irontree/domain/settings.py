"""Sections of `.mino/config.yml` and validation of their values when they are read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.command_lines import unshown
from irontree.domain.gates import Gate, Gates
from irontree.domain.instructions import Language
from irontree.domain.places import ContainerSpec, PlaceSpec, SandboxKind
from irontree.domain.plan import OnHalt
from irontree.domain.text import is_ref_name
from irontree.domain.values import COMPOSITE_THRESHOLD, Discussion, ReplyMode, Section
from irontree.errors import ConfigRefused

AGENT_ADAPTERS: Final = ("command", "acp", *KNOWN_AGENTS)
"""The adapter names that `agents/` knows."""
_BLOCK: Final = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def leads_out(path: str) -> bool:
    """Whether a path of `workspace.copy` leads out of the repository, or names all of it."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return not parts or path.startswith("/") or ".." in parts or parts[0].lower() == ".git"


def _is_api_url(url: str) -> bool:
    parts = urlsplit(url)
    is_whole = parts.scheme in {"http", "https"} and parts.hostname and not re.search(r"\s", url)
    is_shown = url.isprintable()
    return bool(is_whole) and is_shown and parts.port != 0  # `port` raises ValueError itself if it is not a number


def _only(fits: Callable[[str], object], refusal: str) -> AfterValidator:
    """Let a text pass that *fits*; *refusal* says, with the text filled in, what is wrong with any other."""

    def passed(text: str) -> str:
        if not fits(text):
            raise ValueError(refusal.format(text))
        return text

    return AfterValidator(passed)


RefName = Annotated[str, _only(is_ref_name, "git takes no such name: {!r}")]
InnerPath = Annotated[
    str, _only(lambda path: not leads_out(path), "expected a path inside the repository, such as `.env`, got {!r}")
]
VariableName = Annotated[
    str, _only(_VARIABLE.fullmatch, "expected the name of a variable alone; its value is taken from the environment")
]
AgentAdapter = Annotated[
    str, _only(AGENT_ADAPTERS.__contains__, f"there is no agent adapter {{!r}}; known: {', '.join(AGENT_ADAPTERS)}")
]
BlockName = Annotated[
    str, _only(_BLOCK.fullmatch, "expected a block as type/name, such as slack-webhook/team, got {!r}")
]
RepositoryName = Annotated[str, _only(_REPOSITORY.fullmatch, "expected OWNER/NAME, such as `ada/engine`")]
WebAddress = Annotated[
    str, _only(_ADDRESS.fullmatch, "expected an address such as `https://git.example.org`, without a login in it")
]
ApiUrl = Annotated[str, _only(_is_api_url, "expected an address such as http://127.0.0.1:4200/api, got {!r}")]


# --- `issue:`, `report:` and `comment:` of `.mino/config.yml`


class IssueSection(Section):
    """What happens to issues."""

    close_on_done: Literal["auto", "manual"] | None = Field(
        default=None,
        description="Who closes an issue that is done. Unset: a person closes bugs, all else is closed for them.",
    )
    composite_threshold: int = Field(
        default=COMPOSITE_THRESHOLD,
        ge=0,
        description="An issue with more open checkboxes than this is not adopted: it has to be split first.",
    )
    keep_current: bool = Field(
        default=True,
        description="Whether the text of an issue made from a document shows its state, its parts and what is met.",
    )


class Report(Section):
    """What becomes of verification reports."""

    promotion: ReplyMode = Field(
        default="auto", description="Whether notes go into the documents; `auto`: about set-up."
    )
    docs_path: str = Field(default="docs/integrations/", description="The folder of the repository that they go to.")

    @field_validator("docs_path")
    @classmethod
    def _inside(cls, path: str) -> str:
        parts = path.strip("/").split("/")
        if path[:1] == "/" or not all(parts) or {".", "..", ".git", ".mino"}.intersection(path.lower().split("/")):
            raise ValueError("expected a folder inside the repository, such as `docs/integrations/`")
        return f"{'/'.join(parts)}/"


class CommentSection(Section):
    """What is said on issues."""

    reply: ReplyMode = Field(
        default="auto", description="Whether an issue's author gets a reply; `auto`: if they need one."
    )


# --- `loop:` and `run:` of `.mino/config.yml`


class LoopSection(Section):
    """Limits of a loop, and what it does where a person has to decide."""

    max_transitions: int | None = Field(default=None, gt=0, description="Unset: max(50, 10 * tasks).")
    on_halt: OnHalt = Field(
        default="stop",
        description="Whether the loop stops where one issue waits for a person, or does what does not depend on it.",
    )
    lease_stale_hours: int = Field(
        default=6, gt=0, description="After how long another tool's `active.lock` is no longer believed."
    )


class RunSection(Section):
    """Limits of runs."""

    max_retry_count: int = Field(
        default=3, ge=0, description="How often a failed task is tried again: one more attempt than this in all."
    )
    same_failure: int = Field(
        default=2,
        ge=0,
        description="After how many equal failures in a row a person is asked before the next attempt. 0: never.",
    )
    lock_stale_hours: int = Field(
        default=2, gt=0, description="After how long another tool's `run.lock` is no longer believed."
    )

    @field_validator("same_failure")
    @classmethod
    def _one_is_no_repetition(cls, number: int) -> int:
        if number == 1:
            raise ValueError("expected 0, for never, or at least 2, got 1")
        return number


# --- `automations:` of `.mino/config.yml`


class Automations(Section):
    """What a Prefect server does by itself; it changes nothing that is executed, and needs no approval."""

    notify: tuple[BlockName, ...] = Field(
        default=(), description="Notification blocks, as `type/name`, that say when a person is asked."
    )
    start_label: str | None = Field(
        default=None, description="An open issue that gets this label is put up for approval."
    )
    reconcile: bool = Field(
        default=True, description="Compare with the forge when `irontree.forge_changed` is emitted."
    )
    remind_hours: int = Field(default=24, ge=0, description="How often an open question is notified again; 0: never.")
    nightly: str | None = Field(
        default=None, description="What to go on with every night: a document, `#12 #13`, `first 5` or `all open`."
    )
    keep_transcripts_days: int = Field(
        default=0,
        ge=0,
        description="How long what agents said is kept once an issue is done; 0: for ever. Evidence stays.",
    )


# --- `toolchain:` of `.mino/config.yml`


class Toolchain(Section):
    """A team that works in its forge; the section's presence, even empty, is what counts.

    Issues are given `type/…` labels, and theirs say what type they are.
    """

    language: Language | None = Field(
        default=None,
        description="Agents are told the steps that come with this program, in that language. Unset: none.",
    )
    templates: InnerPath | None = Field(
        default=None, description="A file with steps of your own, in place of these; its format is the toolchain's."
    )
    rounds: int = Field(
        default=3, ge=1, le=20, description="After how many rounds of parts a person decides how an issue goes on."
    )
    discussion: Discussion | None = Field(
        default=None,
        description="Who of the team is asked about new issues of a `type/…`: `everybody`, one after the other, or the "
        "`lead`. What they claim is proposed to people as the parts of the issue. Unset: nobody.",
    )
    approve: Literal["ask", "assignment"] = Field(
        default="ask",
        description="Who approves an issue that is assigned to a member of the team: a person who is asked, or whoever "
        "assigned it, within what `irontree toolchain approve` shows.",
    )


# --- `container:` of `.mino/config.yml`: where agents, set-up commands and checks run


_DIGEST: Final = re.compile(r"(?:(?:[^\s@-][^\s@]*@)?sha256:)?[0-9a-f]{64}")


def _is_mount(given: str) -> bool:
    path, _, end = given.rpartition(":")
    parts = (path if end == "ro" else given).split(":")
    return len(parts) <= 2 and all(part.startswith("/") for part in parts)  # noqa: PLR2004  (source and target)


ImageDigest = Annotated[
    str,
    _only(
        _DIGEST.fullmatch,
        "expected a digest, so that what is approved is what runs: NAME@sha256:… or an image's id, got {0!r}; "
        "`docker image inspect --format '{{{{.Id}}}}' {0}` says that, and so does podman",
    ),
]
Mount = Annotated[str, _only(_is_mount, "expected /SOURCE, /SOURCE:/TARGET, or either with `:ro` behind it, got {!r}")]


class Container(Section):
    """In what agents, set-up commands and checks run instead of on the machine itself."""

    image: ImageDigest | None = Field(
        default=None,
        description="By digest, so that it cannot change: `NAME@sha256:…` or `sha256:…`. Unset: nothing is contained.",
    )
    engine: Literal["docker", "podman"] = Field(default="docker", description="The program that runs containers.")
    mounts: tuple[Mount, ...] = Field(
        default=(),
        description="What else of this machine it sees: `/SOURCE`, `/SOURCE:/TARGET`, or either with `:ro` behind it.",
    )
    network: bool = Field(default=True, description="Whether it reaches the network; most agents need that.")
    user: str | None = Field(default=None, pattern=r"^[^\s-]\S*$", description="`UID:GID` or a name. Unset: yours.")
    options: tuple[str, ...] = Field(default=(), description="More words for `docker run` or `podman run`.")

    @model_validator(mode="after")
    def _says_in_which(self) -> Self:
        """Who says how something is contained must not find that nothing is."""
        if self.model_fields_set and self.image is None:
            raise ValueError("without `image` nothing runs in a container: name one, or leave the section out")
        return self


# --- `sandbox:` of `.mino/config.yml`: what keeps agents, set-up commands, checks and hooks from the rest


def _is_shown(path: str) -> bool:
    """Whether *path* may be named in `read` and `write`: no whole home, and not everything."""
    parts = path.split("/")
    return path.startswith(("/", "~/")) and ".." not in parts and bool("".join(parts[1:]).strip("."))


ShownPath = Annotated[
    str, _only(_is_shown, "expected an absolute path or one below `~/`, such as `~/.cargo/registry`, got {!r}")
]


class Sandbox(Section):
    """What keeps agents, set-up commands and checks from the rest of this machine; a word alone is its `kind`."""

    kind: Literal["auto", "bubblewrap", "container", "none"] = Field(
        default="auto",
        description="`auto`: the container that `container` names, else bubblewrap where it works, else `none`.",
    )
    read: tuple[ShownPath, ...] = Field(
        default=(), description="What else bubblewrap shows: absolute paths, or `~/…`; what is not there is left out."
    )
    write: tuple[ShownPath, ...] = Field(default=(), description="The same, and it can be changed.")
    network: Literal["all", "agents", "none"] = Field(
        default="all",
        description="Who reaches the network: `agents` are the agents and `workspace.setup`, `all` the checks too.",
    )

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, data: object) -> object:
        """`sandbox: none` is short for `sandbox: {kind: none}`."""
        return {"kind": data} if isinstance(data, str) else data


BestKind = Callable[[], SandboxKind]
"""The strongest kind that this machine has without a configuration; to find out takes a moment."""


def approved_places(sandbox: Sandbox, container: Container, best: BestKind) -> tuple[PlaceSpec, PlaceSpec]:
    """The place of agents and set-up, and that of checks, to be approved (R6). Raises ConfigRefused."""
    asked = "container" if sandbox.kind == "auto" and container.image else sandbox.kind
    kind = best() if asked == "auto" else asked
    if kind == "container" and container.image is None:
        raise ConfigRefused(
            "sandbox.kind: container needs an image",
            remedy="name one as container.image in .mino/config.yml, or choose another kind",
        )
    shown = kind == "bubblewrap"
    agents = PlaceSpec(
        kind=kind,
        read=sandbox.read if shown else (),
        write=sandbox.write if shown else (),
        network=kind == "none" or sandbox.network != "none",
        container=ContainerSpec(**container.model_dump()) if kind == "container" else None,
    )
    return agents, agents.model_copy(update={"network": kind == "none" or sandbox.network == "all"})


# --- The section `gates` of `.mino/config.yml` (R20)


class GateSetting(Section, Gate):
    """Who has to say, in comments on the issue, that work goes on."""


class GateSettings(Section):
    """Decisions that only comments of people with write access make; `acceptance: {approvers: 2}`."""

    acceptance: GateSetting | None = Field(default=None, description="Of work that waits for a person's acceptance.")
    approval: GateSetting | None = Field(
        default=None, description="Of an issue that was adopted, or whose text or settings changed."
    )
    failure: GateSetting | None = Field(default=None, description="To try again after the last attempt failed.")
    blocked: GateSetting | None = Field(default=None, description="To go on after something was in the way.")

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, data: object) -> object:
        """As it is: who names a gate wants it."""
        return data

    @field_validator("*", mode="before")
    @classmethod
    def _says_something(cls, gate: object) -> object:
        if gate is None:
            raise ValueError("nothing stands behind it: write `{}` for this gate, or leave the key out")
        return gate


def approved_gates(settings: Mapping[str, Any], *, known: bool) -> Gates | None:
    """The gates to be approved (R6); *known* is whether the forge identifies authors. Raises ConfigRefused."""
    gates = Gates(**settings)
    if gates.named and not known:
        raise ConfigRefused(
            f"gates.{gates.named[0][0]}: nobody logs in to files, so nobody knows who wrote a comment",
            remedy="set forge.adapter to github or gitea (Forgejo too), or leave the gates out",
        )
    return gates if gates.named else None


# --- What an approval would not show of the settings


SHOWN_IN_FULL: Final = "an approval shows every setting in full, so that it can be read"
Location = tuple[int | str, ...]


def unshown_settings(settings: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """The texts in *settings*, as they were written, of which an approval would not show all: where, and what to do."""
    for section, value in settings.items():
        if section != "prefect":  # no approval shows it, and its address may have a login
            yield from _unshown_in(value, (section,))


def _unshown_in(value: object, at: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(value, str):
        yield from _unshown_text(value, at)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _unshown_in(each, (*at, key))
    elif isinstance(value, tuple):
        found = [place for number, each in enumerate(value) for place in _unshown_in(each, (*at, number))]
        words = [each for each in value if isinstance(each, str)]
        yield from found or _unshown_text(shlex.join(words), at)


def _unshown_text(text: str, at: Location) -> Iterator[tuple[Location, str]]:
    if found := unshown(text):
        what, remedy = found
        yield at, f"`{'.'.join(map(str, at))}` has {what}. {remedy}"


def default_remote(remotes: tuple[str, ...]) -> str | None:
    """`origin` if there is one, else the only or first one."""
    return "origin" if "origin" in remotes else next(iter(remotes), None)
