"""Effects on the forge, derived from the log: labels, comments, replies (R9)."""

from __future__ import annotations
