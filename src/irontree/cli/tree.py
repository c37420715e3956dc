"""The tree of issues with their state, drawn for a terminal or as plain lines."""

from __future__ import annotations

from irontree.cli.text import short_sha
from irontree.domain.state import Phase
from irontree.services.overview import SKIPPED, IssueRow, state_words

_MARKS = {"done": "✓", "blocked": "!", "waiting for acceptance": "?", "failed, attempts used up": "✗", SKIPPED: "-"}


def tree_line(row: IssueRow, *, skipped: bool = False) -> str:
    """`✓ #3 Parse amounts  done  4f2a9c1`."""
    words = state_words(row, skipped=skipped)
    attempts = f"attempts {row.attempts}" if row.attempts and row.phase != Phase.DONE else ""
    facts = "  ".join(part for part in (words, attempts, short_sha(row.code_ref)) if part)
    return f"{'  ' * row.depth}{_MARKS.get(words, '·')} #{row.number} {row.title}  {facts}"
