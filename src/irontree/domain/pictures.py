"""The work graph as Mermaid text, Graphviz text and a standalone SVG picture.

In Graphviz and SVG a composite is a node of its own, with dashed arrows from its parts, which complete it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from types import MappingProxyType
from typing import Final

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
        *_mermaid_arrows(graph, names),
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


def _mermaid_arrows(graph: Graph, names: Mapping[str, str]) -> Iterator[str]:
    for key, node in graph.nodes.items():
        parent = graph.parent(key)
        inherited = graph.nodes[parent].depends_on if parent else ()
        for needed in node.depends_on:
            if needed not in inherited:
                yield f"{names[needed]} {'-->' if needed in graph.nodes else '-.->'} {names[key]}"


def _quoted(label: str) -> str:
    """The label as Mermaid text: characters that could be syntax or HTML are written as character codes."""
    text = " ".join(label.split())
    return '["' + re.sub(r"[^\w .,:/()+=-]", lambda match: f"#{ord(match[0])};", text) + '"]'


# --- The work graph as DOT text (Graphviz) and as a standalone SVG picture


BOX_WIDTH, BOX_HEIGHT, GAP_ACROSS, GAP_DOWN, MARGIN = 220, 44, 70, 18, 16
"""Pixels of the picture."""
_LETTERS: Final = 30
_COLORS: Final[Mapping[str, tuple[str, str]]] = {
    "done": ("#e6f4ea", "#2e7d32"),
    "busy": ("#e3f2fd", "#1565c0"),
    "asks": ("#fff8e1", "#b26a00"),
    "bad": ("#fdecea", "#b71c1c"),
    "": ("#f6f8fa", "#57606a"),
}
_ARROW_HEAD: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>'
)
_PAPER: Final = '<path d="M0 0h100000v100000h-100000z" fill="#ffffff"/>'
"""A background, because arrows would be lost on dark pages."""


@dataclass(frozen=True, slots=True)
class NodeLook:
    """How a node is shown: its label and its status, a key of `_COLORS`."""

    label: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: str
    target: str
    part: bool = False


_Stop = str | tuple[_Arrow, int]
"""A node's key, or where an arrow passes a column."""


def dot(graph: Graph, looks: Mapping[str, NodeLook]) -> str:
    """A left-to-right digraph in Graphviz' language."""
    names = {key: f"n{number}" for number, key in enumerate(_all_keys(graph))}
    lines = ["rankdir=LR;", 'node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for key, name in names.items():
        look = _look(graph, looks, key)
        fill, line = _COLORS[look.tone]
        lines.append(f'{name} [label={_dot_quoted(look.label)}, fillcolor="{fill}", color="{line}"];')
    for arrow in _arrows(graph):
        style = " [style=dashed]" if arrow.part else ""
        lines.append(f"{names[arrow.source]} -> {names[arrow.target]}{style};")
    return "\n".join(["digraph tasks {", *(f"  {line}" for line in lines), "}"]) + "\n"


def svg(graph: Graph, looks: Mapping[str, NodeLook]) -> str:
    """A left-to-right picture: each node right of all it needs. Labels are cut to fit, whole in the tooltip."""
    routes = _routes(graph, tuple(_arrows(graph)))
    places = _places(_layers(graph, routes))
    width = max((x for x, _ in places.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((y for _, y in places.values()), default=0) + BOX_HEIGHT + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
    )
    lines = (_line([places[stop] for stop in route], part=arrow.part) for arrow, route in routes.items())
    boxes = (_box(places[key], _look(graph, looks, key)) for key in _all_keys(graph))
    return "\n".join([head, _ARROW_HEAD, _PAPER, *lines, *boxes, "</svg>\n"])


def _all_keys(graph: Graph) -> tuple[str, ...]:
    """Nodes in order, after the keys they need outside the graph."""
    return tuple(dict.fromkeys([*(key for node in graph.order for key in graph.outside(node)), *graph.order]))


def _arrows(graph: Graph) -> Iterator[_Arrow]:
    """Arrows from a needed node to its dependents; an arrow that each part of a composite has is not drawn for it."""
    for key, node in graph.nodes.items():
        parts = [graph.nodes[child] for child in graph.children(key)]
        for needed in node.depends_on:
            if not parts or any(needed not in part.depends_on for part in parts):
                yield _Arrow(needed, key)
        yield from (_Arrow(part.task_key, key, part=True) for part in parts)


def _look(graph: Graph, looks: Mapping[str, NodeLook], key: str) -> NodeLook:
    return looks.get(key) or NodeLook(graph.nodes[key].title if key in graph.nodes else key)


def _depths(graph: Graph, arrows: Iterable[_Arrow]) -> dict[str, int]:
    """The length of the longest path to each node. Plans have no cycles, but a cycle would not hang this."""
    needs: dict[str, list[str]] = {key: [] for key in _all_keys(graph)}
    for arrow in arrows:
        needs[arrow.target].append(arrow.source)
    depths = dict.fromkeys(needs, 0)
    for _ in needs:
        deeper = {key: max((depths[source] + 1 for source in needs[key]), default=0) for key in needs}
        if deeper == depths:
            break
        depths = deeper
    return depths


def _routes(graph: Graph, arrows: Sequence[_Arrow]) -> dict[_Arrow, tuple[_Stop, ...]]:
    """The stops of each arrow, one per column: a long arrow gets places of its own, so that no box covers it."""
    depths = _depths(graph, arrows)
    routes: dict[_Arrow, tuple[_Stop, ...]] = {}
    for arrow in arrows:
        between = range(depths[arrow.source] + 1, depths[arrow.target])
        routes[arrow] = (arrow.source, *((arrow, column) for column in between), arrow.target)
    return routes


def _layers(graph: Graph, routes: Mapping[_Arrow, tuple[_Stop, ...]]) -> list[list[_Stop]]:
    """Nodes and stops by column, each near the middle of its predecessors, so that few arrows cross."""
    depths = _depths(graph, routes)
    layers: list[list[_Stop]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for key, depth in depths.items():
        layers[depth].append(key)
    leads_to: dict[_Stop, list[_Stop]] = {}
    for route in routes.values():
        for column, stop in enumerate(route[1:-1], start=depths[str(route[0])] + 1):
            layers[column].append(stop)
        for before, after in pairwise(route):
            leads_to.setdefault(after, []).append(before)
    return _untangled(layers, leads_to)


def _untangled(layers: list[list[_Stop]], leads_to: Mapping[_Stop, list[_Stop]]) -> list[list[_Stop]]:
    row: dict[_Stop, float] = {}
    for layer in layers:
        layer.sort(key=lambda stop: _middle([row[before] for before in leads_to.get(stop, ())]))
        row |= {stop: float(number) for number, stop in enumerate(layer)}
    return layers


def _middle(rows: list[float]) -> float:
    return sum(rows) / len(rows) if rows else 0.0


def _places(layers: list[list[_Stop]]) -> dict[_Stop, tuple[int, int]]:
    """The upper left corner of each box, columns centred on each other."""
    tallest = max((len(layer) for layer in layers), default=0)
    step_x, step_y = BOX_WIDTH + GAP_ACROSS, BOX_HEIGHT + GAP_DOWN
    return {
        stop: (MARGIN + column * step_x, MARGIN + (tallest - len(layer)) * step_y // 2 + number * step_y)
        for column, layer in enumerate(layers)
        for number, stop in enumerate(layer)
    }


def _line(places: Sequence[tuple[int, int]], *, part: bool) -> str:
    """From the right edge of the first place to the left edge of the last, straight through those between."""
    half, bend = BOX_HEIGHT // 2, GAP_ACROSS // 2
    words = [f"M{places[0][0] + BOX_WIDTH} {places[0][1] + half}"]
    for (x1, y1), (x2, y2) in pairwise(places):
        words.append(f"H{x1 + BOX_WIDTH}C{x1 + BOX_WIDTH + bend} {y1 + half} {x2 - bend} {y2 + half} {x2} {y2 + half}")
    dashes = ' stroke-dasharray="5 4"' if part else ""
    return f'<path d="{"".join(words)}" fill="none" stroke="#57606a"{dashes} marker-end="url(#tip)"/>'


def _box(place: tuple[int, int], look: NodeLook) -> str:
    (x, y), (fill, line) = place, _COLORS[look.tone]
    label = _one_line(look.label)
    text = label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…"
    return (
        f'<g><title>{escape(label)}</title><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="8" fill="{fill}" stroke="{line}"/><text x="{x + 10}" y="{y + BOX_HEIGHT // 2 + 5}" '
        f'fill="#1f2328">{escape(text)}</text></g>'
    )


def _dot_quoted(label: str) -> str:
    text = _one_line(label).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _one_line(label: str) -> str:
    """The text in one line, without characters unfit for XML or a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(label.split()))
