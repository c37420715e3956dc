"""The names that mean something in a requirement document, as labels (`Type: bug`) and as section headings."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final, Literal

Kind = Literal[
    "type", "priority", "key", "depends_on", "target_files", "description", "criteria", "verification", "prose"
]

_NAMES: Final[dict[Kind, tuple[str, ...]]] = {
    "type": ("type",),
    "priority": ("priority",),
    "key": ("key",),
    "depends_on": ("depends on", "dependencies", "blocked by"),
    "target_files": ("target files", "files"),
    "description": ("description", "summary"),
    "criteria": ("acceptance criteria", "acceptance", "criteria", "definition of done", "done when"),
    "verification": ("verification", "verification commands", "checks"),
    "prose": (
        *("overview", "introduction", "background", "context", "motivation", "rationale", "goals", "non goals"),
        *("out of scope", "assumptions", "constraints", "risks", "notes", "details", "open questions", "questions"),
        *("references", "links", "see also", "glossary", "appendix"),
    ),
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names}
_LABELS: Final = [name for name, kind in _KINDS.items() if kind != "prose"]


def kind_of(name: str) -> Kind | None:
    """What a heading or label of this name holds; None if it has no meaning of its own."""
    return _KINDS.get(_folded(name))


def nearest_label(name: str) -> str | None:
    """The label that *name* probably misspells, if one is close."""
    close = get_close_matches(_folded(name), _LABELS, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name).strip(" :").casefold()
