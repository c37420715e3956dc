"""What clients and server of the private server know each other by (decision 0024). Imports no Prefect."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import certifi

from irontree.files import locked, read_bytes, swap

PASSWORD: Final = "PREFECT_SERVER_API_AUTH_STRING"
"""`user:password` for the private server: the only Prefect setting that we take from the user for it."""

FILE: Final = "password"
AUTHORITY: Final = "authority.pem"
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


def password(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings with the password of the private server in *folder*: that of *environ*, else the one made for it.

    In the environment, because Prefect's runner and worker give flow processes their settings in no other way; agents
    and checks get none of it (`strip`).
    """
    given = environ.get(PASSWORD) or read_password(folder)
    return {PASSWORD: given, "PREFECT_API_AUTH_STRING": given} if given else {}


def make_authority(folder: Path) -> None:
    """Lay down a certificate that clients of the server in *folder* read, instead of all that there are (16 ms each).

    They speak plain HTTP on loopback and verify none; Prefect's client has no way to read none. Raises OSError.
    """
    end = "-----END CERTIFICATE-----\n"
    first, _, _ = certifi.contents().partition(end)
    swap(folder / AUTHORITY, (first + end).encode("ascii"))


def authority(folder: Path) -> dict[str, str]:
    """The setting that names it; empty before the first server was started."""
    path = folder / AUTHORITY
    return {"PREFECT_API_SSL_CERT_FILE": str(path)} if path.exists() else {}
