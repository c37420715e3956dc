"""The tree of tasks as people see it: how each node of a picture looks, and a page with a row for each task."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Final

from irontree.app import App
from irontree.domain.graph import Graph
from irontree.domain.pictures import Look, svg
from irontree.services.loops.loop import left_out, read_loop
from irontree.services.overview import IssueRow, overview_of, phase_words, state_words
from irontree.services.projections.links import Links, links_for
from irontree.services.projections.page_views import TreeRowView, TreeView
from irontree.services.world import World, read_world

MOST_DRAWN: Final = 60
"""Tasks; of more a picture cannot be read, and the rows say it all."""


def looks_of(world: World) -> dict[str, Look]:
    """How each task is shown in a picture, by its key: `#12 Title: state`; one without an issue by its title alone."""
    return {key: Look(_label(world, key), _tone(world, key)) for key in world.nodes}


def tree_text(app: App, loop_id: str, runs: Mapping[int, str]) -> str:
    """The page of a loop: how far it is, its tasks as a picture, and a row for each with its links.

    *runs* are the addresses of the issues' own runs, by issue number.
    """
    loop, world = read_loop(app, loop_id), read_world(app)
    keys = loop.entity.task_keys
    skips = left_out(loop, world)
    rows = [row for row in overview_of(app, world, (loop,), ()).issues if row.task_key in keys]
    view = TreeView(
        loop_id=loop_id,
        done=sum(map(world.is_done, set(keys) - skips)),
        total=len(set(keys) - skips),
        picture=_picture(world, keys),
        rows=tuple(_row(row, links_for(app), runs.get(row.number, ""), skipped=row.task_key in skips) for row in rows),
    )
    return app.renderer.render("artifacts/tree.md", tree=view)


def _picture(world: World, keys: Collection[str]) -> str:
    """An address that holds the whole picture: Prefect's pages draw that in Markdown; Mermaid only one of two does."""
    chosen = [node for key, node in world.nodes.items() if key in keys]
    if not 0 < len(chosen) <= MOST_DRAWN:
        return ""
    picture = svg(Graph.of(chosen), looks_of(world))
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}"


def _row(row: IssueRow, links: Links, run: str, *, skipped: bool) -> TreeRowView:
    return TreeRowView(
        number=row.number,
        depth=row.depth,
        title=row.title,
        state=state_words(row, skipped=skipped),
        attempts=row.attempts,
        commit=row.code_ref if row.code_ref and row.code_ref != "not_applicable" else "",
        run=run,
        address=links.to_issue(row.number),
        commit_address=links.to_commit(row.code_ref) if row.phase == "done" else "",
    )


def _label(world: World, key: str) -> str:
    state, title = world.states.get(key), world.nodes[key].title
    return f"#{state.issue_number} {title}: {phase_words(world, state)}" if state else title


def _tone(world: World, key: str) -> str:
    state = world.states.get(key)
    if state is None or key in world.cancelled:
        return ""
    if state.done:
        return "done"
    if world.halt_of(state):
        return "asks"
    return "busy" if state.started else ""
