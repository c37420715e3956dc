"""Where issues live: one small module per kind of forge, found by name and imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from irontree.errors import ConfigRefused
from irontree.ports import Clock, Forge

FORGES: dict[str, str] = {
    "local": "irontree.forges.local:LocalForge",
    "memory": "irontree.forges.memory:MemoryForge",
}


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """What an adapter may need to find its issues; each takes what concerns it."""

    folder: Path
    """`.mino/forge` of the repository."""
    account: str
    """The name we write under."""
    clock: Clock
    read_mapping: Callable[[str, str], dict[str, Any]]
    """YAML text and its path (for error messages) to a mapping whose scalars are text."""
    write_mapping: Callable[[Mapping[str, Any]], str]
    """A mapping to YAML text."""
    taken: Callable[[], Iterable[int]] = tuple
    """Numbers that the log knows: no new issue gets one of them, even if all issues are gone."""


def connect(name: str, settings: ForgeSettings) -> Forge:
    """The forge of that name; raises ConfigRefused for a name nobody knows."""
    if name not in FORGES:
        raise ConfigRefused(f"there is no forge called {name!r}", remedy=f"forge: one of {', '.join(sorted(FORGES))}")
    module, _, adapter = FORGES[name].partition(":")
    forge: Forge = getattr(import_module(module), adapter)(settings)
    return forge
