"""Working through a graph by hand, the plain way: a second opinion on what `decide` does with states."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from irontree.domain.graph import Graph


def eligible(graph: Graph, done: AbstractSet[str]) -> tuple[str, ...]:
    """Executable nodes that are not done and whose dependencies all are, in graph order."""
    return tuple(
        key
        for key in graph.order
        if key not in done
        and graph.nodes[key].executability == "executable"
        and all(needed in done for needed in graph.nodes[key].depends_on)
    )


def all_children_done(graph: Graph, key: str, done: AbstractSet[str]) -> bool:
    """Whether a composite is complete; never true without children (R11)."""
    children = graph.children(key)
    return bool(children) and all(child in done for child in children)
