"""What is spent of budgets, and what is left, wherever a listing shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from irontree.cli.blocks import Block, Cell, Lines, Style

if TYPE_CHECKING:
    from irontree.domain.ledger import Budget


def budget_blocks(budgets: Sequence[Budget]) -> Iterator[Block]:
    """One line for each; nothing where there is none."""
    if budgets:
        yield Lines(tuple(Cell(budget.words, _style(budget)) for budget in budgets), title="Budgets")


def budgets_json(budgets: Iterable[Budget]) -> list[dict[str, Any]]:
    """The documented keys: amounts in parts (millionths of a US dollar, tokens, milliseconds), and in words."""
    derived = ("left", "over", "warns", "words")
    return [asdict(budget) | {name: getattr(budget, name) for name in derived} for budget in budgets]


def _style(budget: Budget) -> Style:
    return "bad" if budget.over else "asks" if budget.warns else "faint"
