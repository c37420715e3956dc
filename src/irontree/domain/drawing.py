"""The work graph as Mermaid text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from irontree.domain.graph import Graph

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


def mermaid(graph: Graph, labels: Mapping[str, str] = NO_LABELS) -> str:
    """A flowchart: composites are boxes around their parts, arrows lead from a dependency to what waits for it.

    *labels* are the texts to show, by key; a node without one shows its title, an outside dependency its key.
    An arrow that a composite has is not drawn again for its parts.
    """
    outside = dict.fromkeys(needed for key in graph.order for needed in graph.outside(key))
    names = {key: f"n{number}" for number, key in enumerate([*graph.nodes, *outside])}
    lines = [
        *_boxes(graph, names, labels),
        *(f"{names[key]}{_quoted(labels.get(key, key))}" for key in outside),
        *_arrows(graph, names),
    ]
    return "\n".join(["flowchart TD", *(f"  {line}" for line in lines)]) + "\n"


def _boxes(graph: Graph, names: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[str]:
    roots = [key for key in graph.nodes if graph.parent(key) is None]
    queue: list[str | None] = [*reversed(roots)]
    while queue:
        key = queue.pop()
        if key is None:
            yield "end"
            continue
        children = graph.children(key)
        yield f"{'subgraph ' if children else ''}{names[key]}{_quoted(labels.get(key, graph.nodes[key].title))}"
        if children:
            queue += [None, *reversed(children)]


def _arrows(graph: Graph, names: Mapping[str, str]) -> Iterator[str]:
    for key, node in graph.nodes.items():
        parent = graph.parent(key)
        inherited = graph.nodes[parent].depends_on if parent else ()
        for needed in node.depends_on:
            if needed not in inherited:
                yield f"{names[needed]} {'-->' if needed in graph.nodes else '-.->'} {names[key]}"


def _quoted(label: str) -> str:
    """The label as Mermaid text: whatever could be syntax there, or HTML, goes in as a character code."""
    text = " ".join(label.split())
    return '["' + re.sub(r"[^\w .,:/()+=-]", lambda match: f"#{ord(match[0])};", text) + '"]'
