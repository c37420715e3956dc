"""Say in plain words whether this interpreter can carry the project; runs on any Python from 3.7 on."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = (3, 11)


def complaint() -> str | None:
    """What is missing and what to do about it; None if nothing is."""
    if sys.version_info < NEEDED:
        found, needed = sys.version.split()[0], ".".join(map(str, NEEDED))
        return f"Python {needed} or later is needed; this is {found}.\nName it: make setup PYTHON=python3.12"
    if not (find_spec("ensurepip") and find_spec("venv")):
        return "This Python cannot make virtual environments.\nOn Debian and Ubuntu: apt-get install python3-venv"
    return None


if __name__ == "__main__":
    sys.exit(complaint())
