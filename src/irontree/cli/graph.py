"""`irontree graph`: the dependency graph of all approved tasks, as Mermaid or Graphviz text or as an SVG picture."""

from __future__ import annotations

from typing import Any, Final

from irontree.cli.context import Context, Verb
from irontree.cli.parser import JSON, argument
from irontree.domain.graph import Graph
from irontree.domain.pictures import dot, mermaid, svg
from irontree.errors import NotEligible
from irontree.services.questions.pages import looks_of
from irontree.services.record import World, read_world


def run(context: Context) -> int:
    """Print the graph; raises NotEligible if nothing is approved."""
    world = read_world(context.look())
    if not world.nodes:
        raise NotEligible("there is nothing to draw: no plan is approved here", remedy="irontree task SPEC.md")
    if context.options.json:
        context.console.dump(as_json(world))
    else:
        context.console.write(drawn(world, context.options.format))
    return 0


def drawn(world: World, notation: str) -> str:
    """The graph in that notation; each task as `#12 Title: state`, one without an issue by its title alone."""
    graph = Graph.of(world.nodes.values())
    looks = looks_of(world)
    if notation == "mermaid":
        return mermaid(graph, {key: look.label for key, look in looks.items()})
    return dot(graph, looks) if notation == "dot" else svg(graph, looks)


def as_json(world: World) -> dict[str, Any]:
    """`nodes` in an order in which they can be done; edges are their `depends_on` and `parent`."""
    return {"nodes": [_node(world, key) for key in Graph.of(world.nodes.values()).order]}


def _node(world: World, key: str) -> dict[str, Any]:
    node, state = world.nodes[key], world.states.get(key)
    return {
        "task_key": key,
        "title": node.title,
        "issue": state.issue_number if state else None,
        "phase": state.phase.value if state else None,
        "executability": node.executability,
        "parent": node.parent,
        "depends_on": list(node.depends_on),
    }


_FORMATS: Final = ("mermaid", "dot", "svg")
VERBS: Final = {
    "graph": Verb(
        run, argument("--format", choices=_FORMATS, default="mermaid", help="the notation (default: mermaid)"), JSON
    )
}
