"""Which document somebody means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from irontree.domain.meant import nearest

_SUFFIXES: Final = (".md", ".markdown")


def meant_document(typed: str, folder: Path, root: Path) -> str | None:
    """The document, relative to *folder*, whose name is nearest: beside the one that was *typed*, or in *root*."""
    looked_for = folder / typed
    found = {
        path.stem.casefold(): path
        for place in (root, looked_for.parent)
        for path in sorted(place.glob("*"))
        if path.suffix.lower() in _SUFFIXES and path.is_file()
    }
    close = nearest(looked_for.stem.casefold(), found)
    return os.path.relpath(found[close], folder) if close else None
