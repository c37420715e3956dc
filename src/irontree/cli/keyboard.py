"""The keyboard of somebody who is asked."""

from __future__ import annotations

import termios
from typing import TextIO


def forget_keys(keys: TextIO) -> None:
    """Drop what was typed before a question was shown: it cannot be meant as its answer."""
    if keys.isatty():
        termios.tcflush(keys, termios.TCIFLUSH)
