"""Let the tests run on a bare checkout too: add the four mapped folders to `irontree` if nothing installed them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import irontree

if importlib.util.find_spec("irontree.flows") is None:
    irontree.__path__.append(str(Path(__file__).parent))
