"""What changed between what was approved and what is there now, line by line for a person (ruling R7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irontree.domain.plan import PlanNode


def changes_of(before: Sequence[PlanNode], now: Sequence[PlanNode]) -> tuple[str, ...]:
    """Nodes that were added, removed and changed, and of these what; in the order of *now*, removed ones last."""
    old, new = ({node.task_key: node for node in nodes} for nodes in (before, now))
    return (*_added_or_changed(old, new), *(f"removed: “{old[key].title}”" for key in old if key not in new))


def _added_or_changed(old: dict[str, PlanNode], new: dict[str, PlanNode]) -> Iterator[str]:
    for key, node in new.items():
        if key not in old:
            yield f"added: “{node.title}”"
        else:
            yield from (f"“{node.title}”, {change}" for change in _changes(old[key], node))


def _changes(before: PlanNode, now: PlanNode) -> Iterator[str]:
    yield from _listed("criterion", (c.text for c in before.criteria), (c.text for c in now.criteria))
    yield from _listed("command", commands_of(before), commands_of(now))
    yield from _listed("dependency", before.depends_on, now.depends_on)
    yield from _listed("target file", before.target_files, now.target_files)
    for name in ("title", "type", "priority", "parent"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            yield f"{name}: {new or 'none'} (was {old or 'none'})"
    if before.description != now.description:
        yield "description: another text"


def commands_of(node: PlanNode) -> tuple[str, ...]:
    """The commands that the text itself names, those of criteria included."""
    return (*node.verification, *(criterion.command for criterion in node.criteria if criterion.command))


def _listed(what: str, before: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    old, new = tuple(before), tuple(now)
    yield from (f"{what} added: {text}" for text in new if text not in old)
    yield from (f"{what} removed: {text}" for text in old if text not in new)
