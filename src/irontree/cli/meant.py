"""What somebody probably meant who mistyped a name: looked for only once something is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_DOCUMENTS: Final = (".md", ".markdown")


def meant(text: str, known: Iterable[str], shown: str = "{}") -> str:
    """The end of a refusal that names the nearest of *known*, written as in *shown*; empty if none is close."""
    close = _nearest(text, known)
    return f"; did you mean {shown.format(close)}?" if close else ""


def meant_document(typed: str, folder: Path, root: Path) -> str | None:
    """The document, relative to *folder*, whose name is nearest: beside the one that was *typed*, or in *root*."""
    looked_for = folder / typed
    found = {
        path.stem.casefold(): path
        for place in (root, looked_for.parent)
        for path in sorted(place.glob("*"))
        if path.suffix.lower() in _DOCUMENTS and path.is_file()
    }
    close = _nearest(looked_for.stem.casefold(), found)
    return os.path.relpath(found[close], folder) if close else None


def _nearest(text: str, known: Iterable[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(text, known, n=1)), None)
