"""What others publish about their APIs, as `make descriptions` left it in build/."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "build" / "descriptions"


def kept(name: str) -> Path | None:
    """The newest file whose name begins with *name*; None if it was not fetched."""
    return max(FOLDER.glob(f"{name}-*"), default=None)


def required(name: str) -> Path:
    """The same; skips the test, aloud, without one."""
    path = kept(name)
    if path is None:
        pytest.skip(f"{name} was not fetched (`make descriptions`, needs npm): nothing is compared with it")
    return path
