"""Where a repository is on the web, from what git calls its remote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from irontree.forges import Location

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
    parts = urlsplit(remote)
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
