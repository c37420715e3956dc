"""What the program says to the shell."""

from __future__ import annotations

from typing import Final

OK: Final = 0
REFUSED: Final = 1
"""Refused, halted, or failed as it may."""
USAGE: Final = 2
BUG: Final = 3
INTERRUPTED: Final = 130
