"""What the page that starts `intake` says about its first field: which documents are there, by their paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from irontree.errors import EnvironmentRefused
from irontree.files import read_bytes

MOST: Final = 10
"""Documents that are named."""
_LOOKED_AT: Final = 200
_BYTES: Final = 256 * 1024
_CRITERION: Final = re.compile(rb"^\s*[-*+] \[ \] ", re.MULTILINE)


def documents_in(root: Path) -> tuple[str, ...]:
    """The paths of Markdown files with criteria, of the top folder and those in it, below *root*."""
    candidates = (path for pattern in ("*.md", "*/*.md") for path in sorted(root.glob(pattern)))
    shown = (path for path in islice(candidates, _LOOKED_AT) if not path.parent.name.startswith("."))
    return tuple(islice(_with_criteria(root, shown), MOST))


def _with_criteria(root: Path, paths: Iterator[Path]) -> Iterator[str]:
    for path in paths:
        try:
            text = read_bytes(path, _BYTES)
        except EnvironmentRefused:  # too long, or not to be read: whoever wants it can name it
            continue
        if text and _CRITERION.search(text):
            yield path.relative_to(root).as_posix()


def about_documents(found: Sequence[str]) -> dict[str, Any]:
    """The field as JSON schema."""
    named = ", ".join(f"`{path}`" for path in found) or "none"
    return {
        "title": "Document",
        "description": f"Its path in the repository. There when serving started: {named}. "
        "Or issues: `#12 #13`, `first 5`, `all open`.",
    }
