"""The tree of issues with their state, drawn for a terminal or as plain lines."""

from __future__ import annotations

from irontree.cli.text import short_sha
from irontree.domain.state import Phase
from irontree.services.overview import IssueRow

SKIPPED = "skipped"
_MARKS = {"done": "✓", "blocked": "!", "waiting for acceptance": "?", "failed, attempts used up": "✗", SKIPPED: "-"}


def tree_line(row: IssueRow, *, skipped: bool = False) -> str:
    """`✓ #3 Parse amounts  done  4f2a9c1`."""
    words = state_words(row, skipped=skipped)
    attempts = f"attempts {row.attempts}" if row.attempts and row.phase != Phase.DONE else ""
    facts = "  ".join(part for part in (words, attempts, short_sha(row.code_ref)) if part)
    return f"{'  ' * row.depth}{_MARKS.get(words, '·')} #{row.number} {row.title}  {facts}"


def state_words(row: IssueRow, *, skipped: bool = False) -> str:
    """The phase, and what a task that is ready has to wait for; nothing of one that its loop *skipped* waits."""
    if skipped:
        return SKIPPED
    if row.phase == Phase.READY and row.waits_for and not row.attempts:
        return "waits for others"
    return row.phase
