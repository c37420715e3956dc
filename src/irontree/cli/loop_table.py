"""Loops in a table, wherever they are listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from irontree.cli.blocks import Cell, Table

if TYPE_CHECKING:
    from irontree.services.overview import LoopRow


def loop_table(rows: Iterable[LoopRow]) -> Table:
    """One line for each."""
    return Table(("LOOP", "DONE", "TRANSITIONS", "STATE"), tuple(_cells(row) for row in rows))


def _cells(row: LoopRow) -> tuple[Cell | str, ...]:
    at = f" at {row.halt_at}" if row.halt_at else ""
    why = f": {row.halt_reason.replace('_', ' ')}{at}" if row.halt_reason else ""
    done = f"{row.done} of {row.total}{f', {row.skipped} skipped' if row.skipped else ''}"
    return (row.loop_id, done, f"{row.budget_used} of {row.budget}", f"{row.status}{why}")
