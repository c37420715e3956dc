"""Every adapter's stage: a new one is one more entry, and passes the contract suites tests/contract/test_forge*.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.forges import Stage, local, memory
from tests.support.gitea.stage import gitea
from tests.support.github.stage import github

STAGES: dict[str, Callable[[Path], AbstractContextManager[Stage]]] = {
    "gitea": gitea,
    "github": github,
    "local": local,
    "memory": memory,
}
FALLIBLE = sorted(STAGES.keys() - {"local"})
"""Files are there or not: the local forge has no network to fail."""
