"""Where issues live: one small module per kind of forge, found by name and imported when it is needed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from irontree.errors import ConfigRefused
from irontree.ports import Clock, Forge

FORGES: dict[str, str] = {
    "gitea": "irontree.forges.gitea:GiteaForge",
    "github": "irontree.forges.github:GithubForge",
    "local": "irontree.forges.local:LocalForge",
    "memory": "irontree.forges.memory:MemoryForge",
}


class Branches(Protocol):
    """Branches of the repository that is worked on: the `local` forge has no others."""

    def tip(self, branch: str) -> str | None:
        """The commit *branch* points at, here or at a remote as last fetched; None without such a branch."""

    def merge_of(self, sha: str, branch: str) -> tuple[str, str | None] | None:
        """The commit that brought *sha* into *branch*, and who made it (None for a fast-forward); None if none did."""


class NoBranches:
    """Implements `Branches` where no repository is at hand."""

    def tip(self, branch: str) -> None:
        """No branch is there."""

    def merge_of(self, sha: str, branch: str) -> None:
        """Nothing was merged."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a repository is on a forge that is reached over the network."""

    url: str
    """The forge's own address, as a person opens it: `https://github.com`, `https://git.example.org/forge`."""
    repository: str
    """`owner/name`."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """What an adapter may need to find its issues; each takes what concerns it."""

    folder: Path
    """`.mino/forge` of the repository."""
    account: str
    """The name we write under, where the forge has no accounts of its own."""
    clock: Clock
    read_mapping: Callable[[str, str], dict[str, Any]]
    """YAML text and its path (for error messages) to a mapping whose scalars are text."""
    write_mapping: Callable[[Mapping[str, Any]], str]
    """A mapping to YAML text."""
    taken: Callable[[], Iterable[int]] = tuple
    """Issue numbers in the log: no new issue gets one of them, even if all issues are gone."""
    branches: Branches = field(default_factory=NoBranches)
    default_branch: Callable[[], str] = str
    """The branch that work goes to; empty where none is known."""
    location: Location | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where credentials are looked for; no text shows its values."""
    ask_program: Callable[[Sequence[str]], str | None] = field(default=lambda _: None, repr=False)
    """What a program that only reads prints; None if it is not there or fails. `gh` may know a token."""
    sleep: Callable[[float], None] = time.sleep
    write_interval: float = 1.0
    """Seconds between two writes, as public forges ask of programs."""
    answer_within: int = 30
    """Seconds that a forge may take to answer."""
    agents: frozenset[str] = frozenset()
    """Accounts of agents, in small letters: whatever their rights, they are no people (`is_agent`)."""

    def is_agent(self, login: str) -> bool:
        """Whether that account is an agent's: what it says is not trusted, but our own issues are, whoever we are."""
        return login.casefold() in self.agents

    def require_location(self) -> Location:
        """The location; raises ConfigRefused where neither the configuration nor a remote names one."""
        if self.location is None:
            raise ConfigRefused(
                "which repository the issues are in is not known: no git remote says it",
                remedy="set forge.repository: OWNER/NAME (and forge.url, if need be) in .mino/config.yml",
            )
        return self.location


def connect(name: str, settings: ForgeSettings) -> Forge:
    """The forge of that name; raises ConfigRefused for an unknown name."""
    if name not in FORGES:
        raise ConfigRefused(f"there is no forge called {name!r}", remedy=f"forge: one of {', '.join(sorted(FORGES))}")
    module, _, adapter = FORGES[name].partition(":")
    forge: Forge = getattr(import_module(module), adapter)(settings)
    return forge


# --- Where a repository is on the web, from what git calls its remote


_LIKE_SCP: Final = re.compile(r"^(?:[^@/\s]+@)?(?P<host>[\w.-]+):(?!/|\d+/)(?P<path>[^:]+)$")
_WEB_HOSTS: Final = {"ssh.github.com": "github.com"}
"""Hosts that speak SSH alone, with the one that people open."""


def location_of(remote: str | None, url: str | None, repository: str | None, ca_file: Path | None) -> Location | None:
    """The location that the configured *url* and *repository* name; what they leave out is as *remote* has it.

    None where that is not enough: a remote that is a folder names no forge.
    """
    seen = _of_remote(remote) if remote else None
    where, what = url or (seen and seen[0]), repository or (seen and seen[1])
    return Location(where.rstrip("/"), what, ca_file) if where and what else None


def _of_remote(remote: str) -> tuple[str, str] | None:
    """The forge's address and `owner/name`."""
    if short := _LIKE_SCP.match(remote):
        return _split("https", short["host"], short["path"])
    try:
        parts = urlsplit(remote)
    except ValueError:  # brackets that do not match, for example
        return None
    if parts.scheme in {"ssh", "git+ssh", "git"} and parts.hostname:
        return _split("https", parts.hostname, parts.path)
    if parts.scheme in {"http", "https"} and parts.hostname:
        return _split(parts.scheme, parts.netloc.rpartition("@")[2], parts.path)
    return None


def _split(scheme: str, host: str, path: str) -> tuple[str, str] | None:
    """The last two parts of the path are owner and name; what is before them belongs to the address."""
    *below, owner, name = ["", "", *path.strip("/").removesuffix(".git").split("/")]
    if not owner or not name:
        return None
    folder = "/".join(filter(None, below))
    return f"{scheme}://{_WEB_HOSTS.get(host, host)}{'/' if folder else ''}{folder}", f"{owner}/{name}"
