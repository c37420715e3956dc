"""Which names a file may have in an archive: what every disk takes, and no two that are one on some (R21)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from irontree.store.files import is_leftover
from irontree.store.layout import STATE_FOLDER

CONFIG: Final = f"{STATE_FOLDER}/config.yml"
FOLDERS: Final = ("forge", "reports", "deliveries", "archive", "plans", "loops", "events")
"""What is truth or cannot be made again; the log last, for who writes them in this order."""
_PART_BYTES: Final = 200
"""Common file systems take 255; the temporary beside a file has a longer name."""
_NAME_BYTES: Final = 1024
# Locks of processes here; who is active is nobody, once it is packed.
_LEFT_BEHIND: Final = frozenset({".lock", ".lease", "active.lock"})


def stays_behind(name: str) -> bool:
    """Whether a file of that name means nothing in another place."""
    return name in _LEFT_BEHIND or is_leftover(name)


def is_place(path: str) -> bool:
    """Whether a file of the state folder may have that path in an archive, whoever wrote it."""
    if path == CONFIG:
        return True
    state, *parts = path.split("/")
    is_ours = state == STATE_FOLDER and len(parts) > 1 and parts[0] in FOLDERS and not stays_behind(parts[-1])
    return is_ours and all(map(_is_sane, parts)) and len(path.encode()) <= _NAME_BYTES


def _is_sane(part: str) -> bool:
    """Printable, so that no terminal is led by it, and what every file system can keep."""
    return part.isprintable() and part not in {"", ".", ".."} and "\\" not in part and len(part.encode()) <= _PART_BYTES


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two of *paths* of which a disk may keep only one: spelled alike, or one the folder of the other."""
    folders: dict[str, str] = {}
    files: dict[str, str] = {}
    for path in paths:
        name = unicodedata.normalize("NFC", path).casefold()
        if name in files:
            return files[name], path
        files[name] = path
        parts = name.split("/")
        folders.update({"/".join(parts[:depth]): path for depth in range(1, len(parts))})
    return next(((path, folders[name]) for name, path in files.items() if name in folders), None)
