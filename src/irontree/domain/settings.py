"""What single values of `.mino/config.yml` may be: refused where they are read, not where they would be used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

AGENT_ADAPTERS: Final = (
    *("command", "acp"),
    *("claude", "codex", "gemini", "opencode", "copilot", "aider", "mini-swe-agent"),
)
"""The names that `agents/` opens an agent by."""
# git-check-ref-format(1): what no component and no name may hold, or begin or end with.
_NO_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|(?:^|/)\.|\.lock(?:/|$)|^HEAD$")
_BLOCK: Final = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_ref_name(name: str) -> bool:
    """Whether git takes *name* for a branch, and so for a remote (`git check-ref-format --branch`)."""
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
    if not is_whole or parts.port == 0:  # `port` raises ValueError itself for what is no number
        raise ValueError(f"expected an address such as http://127.0.0.1:4200/api, got {url!r}")
    return url


RefName = Annotated[str, AfterValidator(_ref_name)]
InnerPath = Annotated[str, AfterValidator(_inside)]
VariableName = Annotated[str, AfterValidator(_variable)]
AgentAdapter = Annotated[str, AfterValidator(_adapter)]
BlockName = Annotated[str, AfterValidator(_block)]
ApiUrl = Annotated[str, AfterValidator(_api_url)]


class Section(BaseModel):
    """A group of keys; unknown ones are refused, with a guess at what was meant."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, data: object) -> object:
        """`verify:` with nothing, or only comments, below it says nothing."""
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.known_keys()}

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """The keys as they are written in the file."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())
