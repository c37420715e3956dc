"""The bug report file: what a maintainer needs, without the user's secrets."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import platformdirs

from irontree import __version__
from irontree.domain.text import printable

_LIBRARIES: Final = ("prefect", "pydantic", "pyyaml", "jinja2", "rich")
_HIDDEN: Final = "***"
_SECRET_NAME: Final = r"[\w.-]*(?:token|secret|passw|api[_-]?key|credential|auth)[\w.-]*"
_ASSIGNED: Final = re.compile(rf"(?i)(\b{_SECRET_NAME}\s*[=:]\s*|--{_SECRET_NAME}\s+)(\S+)")
_IN_URL: Final = re.compile(r"(?<=://)[^\s/@]+@")
# Prefixes by which issuers mark their tokens; what follows is longer than any word.
_TOKEN: Final = re.compile(r"\b(?:gh[pousr]_|github_pat_|sk-|xox[abpr]-|glpat-)[\w-]{8,}")
_SHORTEST_SECRET: Final = 8


def write_report(error: Exception, words: Sequence[str], environment: Mapping[str, str]) -> Path:
    """Write the report to the user's state folder, or to the temporary one if that cannot be written."""
    text = report(error, words, environment)
    name = f"bug-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    for folder in (platformdirs.user_state_path("irontree") / "reports", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        except OSError:
            continue
        return folder / name
    return Path("nowhere: no folder could be written")


def report(error: Exception, words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Versions, the command line and the traceback, without what looks like a secret."""
    lines = [
        f"command: irontree {' '.join(words)}",
        f"irontree {__version__}, Python {platform.python_version()}, {platform.platform()}",
        *_versions(_LIBRARIES),
        "",
        *traceback.format_exception(error),
    ]
    return _without_secrets(printable("\n".join(line.rstrip("\n") for line in lines)), environment) + "\n"


def _without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Hide the values of variables whose names suggest a secret, and text that looks like one."""
    for name, value in environment.items():
        if len(value) >= _SHORTEST_SECRET and re.fullmatch(_SECRET_NAME, name, re.IGNORECASE):
            text = text.replace(value, _HIDDEN)
    text = _ASSIGNED.sub(rf"\g<1>{_HIDDEN}", text)
    return _TOKEN.sub(_HIDDEN, _IN_URL.sub(f"{_HIDDEN}@", text))


def _versions(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not installed"
