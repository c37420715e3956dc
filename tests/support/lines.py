"""Counting lines of code that run: how work grows, told without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable


def lines_run(work: Callable[[], object]) -> int:
    """Lines of our own code that *work* runs, those of each turn of a loop counted again."""
    count = 0

    def traced(frame, event, _):
        nonlocal count
        if "irontree" not in frame.f_code.co_filename:
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
