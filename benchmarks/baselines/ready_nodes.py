"""Which nodes of a graph can be started now, by the standard library: what `bar_e_decide` is compared with.

Does: give the graph to `graphlib.TopologicalSorter`, tell it what is done, take what it says is ready.

Does not: know phases, halts, budgets, parents or ties; it finds all ready nodes where ours picks the one that is next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from graphlib import TopologicalSorter


def ready_nodes(graph: Mapping[str, Sequence[str]], done: AbstractSet[str]) -> list[str]:
    """All nodes that are not done and whose predecessors are; *graph* maps each node to its predecessors."""
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    found: list[str] = []
    while True:
        ready = sorter.get_ready()
        finished = [node for node in ready if node in done]
        found += [node for node in ready if node not in done]
        if not finished:
            return found
        sorter.done(*finished)
