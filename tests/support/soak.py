"""What takes long is tried by `make soak`; `make test` tries a short form of it."""

from __future__ import annotations

import os

import pytest

SOAK = os.environ.get("SOAK") == "all"
in_soak = pytest.mark.skipif(not SOAK, reason="a longer form: make soak")
"""For a test whose promise a shorter one holds as well, in most of its parts."""
