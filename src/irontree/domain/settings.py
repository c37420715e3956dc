"""Sections of `.mino/config.yml` and validation of their values when they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from irontree.domain.gates import Gate, Gates
from irontree.domain.plan import KNOWN_AGENTS
from irontree.domain.values import Section
from irontree.errors import ConfigRefused

AGENT_ADAPTERS: Final = ("command", "acp", *KNOWN_AGENTS)
"""The adapter names that `agents/` knows."""
# git-check-ref-format(1): what no component and no name may hold, or begin or end with.
_NO_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|(?:^|/)\.|\.lock(?:/|$)|^HEAD$")
_BLOCK: Final = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_ref_name(name: str) -> bool:
    """Whether git accepts *name* for a branch, and so for a remote (`git check-ref-format --branch`)."""
    return bool(name) and not _NO_REF.search(name)


def leads_out(path: str) -> bool:
    """Whether a path of `workspace.copy` leads out of the repository, or names all of it."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return not parts or path.startswith("/") or ".." in parts or parts[0].lower() == ".git"


def _ref_name(name: str) -> str:
    if not is_ref_name(name):
        raise ValueError(f"git takes no such name: {name!r}")
    return name


def _inside(path: str) -> str:
    if leads_out(path):
        raise ValueError(f"expected a path inside the repository, such as `.env`, got {path!r}")
    return path


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("expected the name of a variable alone; its value is taken from the environment")
    return name


def _block(name: str) -> str:
    if not _BLOCK.fullmatch(name):
        raise ValueError(f"expected a block as type/name, such as slack-webhook/team, got {name!r}")
    return name


def _adapter(name: str) -> str:
    if name not in AGENT_ADAPTERS:
        raise ValueError(f"there is no agent adapter {name!r}; known: {', '.join(AGENT_ADAPTERS)}")
    return name


def _api_url(url: str) -> str:
    parts = urlsplit(url)
    is_whole = parts.scheme in {"http", "https"} and parts.hostname and not re.search(r"\s", url)
    if not is_whole or parts.port == 0:  # `port` raises ValueError itself if it is not a number
        raise ValueError(f"expected an address such as http://127.0.0.1:4200/api, got {url!r}")
    return url


RefName = Annotated[str, AfterValidator(_ref_name)]
InnerPath = Annotated[str, AfterValidator(_inside)]
VariableName = Annotated[str, AfterValidator(_variable)]
AgentAdapter = Annotated[str, AfterValidator(_adapter)]
BlockName = Annotated[str, AfterValidator(_block)]
ApiUrl = Annotated[str, AfterValidator(_api_url)]


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


# --- `container:` of `.mino/config.yml`: where agents, set-up commands and checks run


_DIGEST: Final = re.compile(r"(?:(?:[^\s@-][^\s@]*@)?sha256:)?[0-9a-f]{64}")


def _image(name: str) -> str:
    if not _DIGEST.fullmatch(name):
        raise ValueError(
            f"expected a digest, so that what is approved is what runs: NAME@sha256:… or an image's id, got {name!r}; "
            f"`docker image inspect --format '{{{{.Id}}}}' {name}` says that, and so does podman"
        )
    return name


def _mount(given: str) -> str:
    path, _, end = given.rpartition(":")
    parts = (path if end == "ro" else given).split(":")
    if len(parts) > 2 or not all(part.startswith("/") for part in parts):  # noqa: PLR2004  (source and target)
        raise ValueError(f"expected /SOURCE, /SOURCE:/TARGET, or either with `:ro` behind it, got {given!r}")
    return given


ImageDigest = Annotated[str, AfterValidator(_image)]
Mount = Annotated[str, AfterValidator(_mount)]


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


# --- The section `gates` of `.mino/config.yml` (R20)


class GateSetting(Section, Gate):
    """Who has to say, in comments on the issue, that work goes on."""


class GateSettings(Section):
    """Decisions that only comments of people with write access make; `acceptance: {approvers: 2}`."""

    acceptance: GateSetting | None = Field(default=None, description="Of work that waits for a person's acceptance.")
    approval: GateSetting | None = Field(default=None, description="Of an issue whose text or settings changed.")
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
