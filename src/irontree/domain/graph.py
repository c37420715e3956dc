"""The work graph: the order of tasks, which may start, and what a skip cancels (DAG rules; R17)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from irontree.domain.plan import PlanNode
from irontree.errors import LogDamaged

_NONE: Final[tuple[str, ...]] = ()
MEDIUM_PRIORITY: Final = 5
"""The default priority (docs/requirement-format.md)."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes of one or more plans; build it with `Graph.of`.

    A node starts after its dependencies and its parent; a composite ends with its last child, and its dependents start
    after that. Dependencies and parents may lie outside the graph.
    """

    nodes: Mapping[str, PlanNode]
    """By key, in document order."""
    order: tuple[str, ...]
    """All keys, each after those it waits for; ties by priority, then document order, then key.
    Nodes on or after a cycle come last."""
    cycles: tuple[tuple[str, ...], ...]
    """Cycles of keys that wait for each other, each once; empty for every approved plan."""
    _children: Mapping[str, tuple[str, ...]]
    _dependents: Mapping[str, tuple[str, ...]]
    _position: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Iterable[PlanNode]) -> Graph:
        """Build the graph in time linear in nodes and edges, sorting apart; raises LogDamaged for a duplicate key."""
        by_key = _by_key(nodes)
        order, cycles = _Precedence(_by_priority(by_key)).sort()
        return cls(
            nodes=by_key,
            order=order,
            cycles=cycles,
            _children=_grouped((node.parent, key) for key, node in by_key.items() if node.parent),
            _dependents=_grouped((needed, key) for key, node in by_key.items() for needed in node.depends_on),
            _position={key: position for position, key in enumerate(order)},
        )

    def children(self, key: str) -> tuple[str, ...]:
        """The node's own parts, in document order."""
        return self._children.get(key, _NONE)

    def parent(self, key: str) -> str | None:
        """The composite that the node is part of, or `None` if this graph has none."""
        parent = self.nodes[key].parent
        return parent if parent in self.nodes else None

    def ancestors(self, key: str) -> tuple[str, ...]:
        """The composites that the node is part of, innermost first."""
        found: dict[str, None] = {}
        outer = self.parent(key)
        while outer and outer not in found:
            found[outer] = None
            outer = self.parent(outer)
        return tuple(found)

    def outside(self, key: str) -> tuple[str, ...]:
        """The node's dependencies that are not in this graph."""
        return tuple(needed for needed in self.nodes[key].depends_on if needed not in self.nodes)

    def cascade(self, key: str) -> tuple[str, ...]:
        """What skipping *key* cancels, itself included, in graph order (R17).

        Its parts; whatever depends on something cancelled, with its parts; and every composite that can no longer
        be completed. The other parts of such a composite go on.
        """
        cancelled: set[str] = set()
        whole: set[str] = set()
        queue = [(key, True)]
        while queue:
            current, with_parts = queue.pop()
            if current in whole or (current in cancelled and not with_parts):
                continue
            cancelled.add(current)
            queue += [(dependent, True) for dependent in self._dependents.get(current, _NONE)]
            parent = self.parent(current)
            queue += [(parent, False)] if parent else []
            if with_parts:
                whole.add(current)
                queue += [(child, True) for child in self.children(current)]
        return tuple(sorted(cancelled, key=self._position.__getitem__))


class _Precedence:
    """Two vertices for a composite (end and start), one for any other node, so there are no more edges than the plan's.

    Ends are numbered below starts, so that the heap releases them first; both are in document order.
    """

    def __init__(self, nodes: Mapping[str, PlanNode]) -> None:
        self._keys = list(nodes)
        self._starts = {key: vertex for vertex, key in enumerate(nodes, start=len(nodes))}
        self._after: list[list[int]] = [[] for _ in range(2 * len(nodes))]
        self._open = [0] * (2 * len(nodes))
        self._composite = {node.parent for node in nodes.values()}
        for key, node in nodes.items():
            self._add(key, node)

    def sort(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The starts in order, those that cannot be ordered last, and the cycles."""
        order: list[str] = []
        ready = [vertex for vertex in self._starts.values() if not self._open[vertex]]
        while ready:
            vertex = heapq.heappop(ready)
            if vertex >= len(self._keys):
                order.append(self._key(vertex))
            for later in self._after[vertex]:
                self._open[later] -= 1
                if not self._open[later]:
                    heapq.heappush(ready, later)
        stuck = [key for key, vertex in self._starts.items() if self._open[vertex]]
        return (*order, *stuck), self._cycles()

    def _add(self, key: str, node: PlanNode) -> None:
        start, end = self._starts[key], self._end(key)
        for needed in node.depends_on:
            if needed in self._starts:
                self._edge(self._end(needed), start)
        if node.parent in self._starts:
            self._edge(self._starts[node.parent], start)
            self._edge(end, self._end(node.parent))
        if start != end:
            self._edge(start, end)

    def _end(self, key: str) -> int:
        start = self._starts[key]
        return start - len(self._keys) if key in self._composite else start

    def _edge(self, before: int, after: int) -> None:
        self._after[before].append(after)
        self._open[after] += 1

    def _key(self, vertex: int) -> str:
        return self._keys[vertex % len(self._keys)]

    def _cycles(self) -> tuple[tuple[str, ...], ...]:
        """Find cycles: from each vertex that never became ready, follow one it waits for until a vertex repeats."""
        waits_for = self._stuck()
        found: list[tuple[str, ...]] = []
        walked: dict[int, int] = {}
        for start in waits_for:
            path: list[int] = []
            vertex = start
            while vertex not in walked:
                walked[vertex] = start
                path.append(vertex)
                vertex = waits_for[vertex]
            if walked[vertex] == start:
                found.append(self._named(path[path.index(vertex) :]))
        return tuple(found)

    def _stuck(self) -> dict[int, int]:
        """Each vertex that never became ready, with one that it waits for: for an end its own start, if possible."""
        waits_for = {
            later: vertex for vertex, followers in enumerate(self._after) if self._open[vertex] for later in followers
        }
        starts = {self._end(key): start for key, start in self._starts.items() if self._open[start]}
        return waits_for | {end: start for end, start in starts.items() if end != start}

    def _named(self, vertices: list[int]) -> tuple[str, ...]:
        keys = list(dict.fromkeys(self._key(vertex) for vertex in vertices))
        first = min(range(len(keys)), key=lambda index: self._starts[keys[index]])
        return (*keys[first:], *keys[:first])


def _by_priority(nodes: Mapping[str, PlanNode]) -> dict[str, PlanNode]:
    """Sort by priority, then document order."""
    return dict(sorted(nodes.items(), key=lambda item: item[1].priority or MEDIUM_PRIORITY))


def _by_key(nodes: Iterable[PlanNode]) -> dict[str, PlanNode]:
    found: dict[str, PlanNode] = {}
    for node in sorted(nodes, key=lambda node: (node.line is None, node.line or 0, node.task_key)):
        if node.task_key in found:
            raise LogDamaged(
                f"two tasks have the key {node.task_key}: {found[node.task_key].title!r} and {node.title!r}",
                remedy="keep one of the two plans under .mino/plans, or give one task another `Key:`",
            )
        found[node.task_key] = node
    return found


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for group, key in pairs:
        groups.setdefault(group, []).append(key)
    return {group: tuple(keys) for group, keys in groups.items()}
