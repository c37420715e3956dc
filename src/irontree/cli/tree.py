"""The tree of issues with their state, drawn for a terminal or as plain lines."""

from __future__ import annotations

from irontree.services.overview import IssueRow

_MARKS = {"done": "✓", "blocked": "!", "waiting for acceptance": "?", "failed, attempts used up": "✗"}


def tree_line(row: IssueRow) -> str:
    """`✓ #3 Parse amounts  done  4f2a9c1`."""
    mark = _MARKS.get(row.phase, "·")
    code = row.code_ref[:7] if row.code_ref and row.code_ref != "not_applicable" else ""
    attempts = f"attempts {row.attempts}" if row.attempts and row.phase != "done" else ""
    facts = "  ".join(part for part in (row.phase, attempts, code) if part)
    return f"{'  ' * row.depth}{mark} #{row.number} {row.title}  {facts}"
