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
from irontree.domain.text import MIN_LENGTH, printable, secret_values, without_secrets

_LIBRARIES: Final = ("prefect", "pydantic", "pyyaml", "jinja2", "rich")
_HIDDEN: Final = "***"
_SECRET_NAME: Final = r"[\w.-]*(?:token|secret|passw|api[_-]?key|credential|auth)[\w.-]*"
_ASSIGNED: Final = re.compile(rf"(?i)(\b{_SECRET_NAME}\s*[=:]\s*|--{_SECRET_NAME}\s+)(\S+)")
# Of any scheme, and a user alone too: who reads the report need not know either.
_IN_URL: Final = re.compile(r"(?<=://)[^\s/@]+@")


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
    """Hide what is hidden everywhere, and what only a report has to hide: more variables by name, options, users."""
    named = {value for name, value in environment.items() if re.fullmatch(_SECRET_NAME, name, re.IGNORECASE)}
    values = {*secret_values(environment), *(value for value in named if len(value) >= MIN_LENGTH)}
    text = _IN_URL.sub(f"{_HIDDEN}@", without_secrets(text, values))
    return _ASSIGNED.sub(rf"\g<1>{_HIDDEN}", text)


def _versions(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not installed"
