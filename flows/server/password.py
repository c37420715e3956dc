"""The private server's own password (decision 0024). Imports no Prefect."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from irontree.files import locked, read_bytes, swap

FILE: Final = "password"
_LONGEST: Final = 1000


def read_password(folder: Path) -> str | None:
    """The `user:password` that was made for the server in *folder*; `None` if there is none."""
    return (read_bytes(folder / FILE, _LONGEST) or b"").decode("ascii", errors="replace").strip() or None


def make_password(folder: Path) -> str:
    """The same, made at the first call. The file is its owner's alone, whatever the umask. Raises OSError."""
    path = folder / FILE
    with locked(folder / f"{FILE}.lock"):
        if found := read_password(folder):
            path.chmod(0o600)
            return found
        made = f"irontree:{secrets.token_urlsafe(32)}"
        swap(path, made.encode("ascii"))
    return made
