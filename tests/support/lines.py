"""Counting lines of code that run: how work grows, told without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import irontree

# The folder, not the name: a checkout in a folder named after the project holds its libraries too, and their imports.
OURS = f"{Path(irontree.__file__).parent}/"


def lines_run(work: Callable[[], object]) -> int:
    """Lines of our own code that *work* runs, those of each turn of a loop counted again."""
    count = 0

    def traced(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
