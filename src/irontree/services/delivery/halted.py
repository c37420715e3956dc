"""`loop_halted` belongs to no issue: it is told on the one the loop halted at, if nothing else was (ruling R10)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.halt import RULE
from irontree.domain.loop import LoopEntity
from irontree.errors import ConfigRefused, EnvironmentRefused, RemoteFailed
from irontree.services.delivery.comment import comment_text, marker_of, post_once
from irontree.services.delivery.deliver import due_comments
from irontree.services.loops.loop import read_loops
from irontree.services.projections.views import CommentView
from irontree.services.world import World, read_world


def tell_halts(app: App) -> None:
    """Comment where a loop has halted at an issue whose newest event posted nothing; once for each such event.

    The caller holds the driver lock. What cannot be posted is said, and tried again the next time work is taken up.
    """
    world = read_world(app)
    for loop in read_loops(app)[0]:
        if loop.entity.status == "halted" and _is_untold(app, world, loop.entity):
            try:
                _tell(app, world, loop.entity)
            except (RemoteFailed, ConfigRefused, EnvironmentRefused) as error:
                app.progress.note(f"comment_post_failed: {error.message}")


def _is_untold(app: App, world: World, entity: LoopEntity) -> bool:
    state = world.states.get(entity.halt_at_task_key or "")
    if state is None or world.halt_of(state) is None:  # answered, and the loop has not gone on yet
        return False
    stream = app.log.read(state.issue_number)
    return stream.last_sequence not in {record.event.sequence for _, record in due_comments(stream)}


def _tell(app: App, world: World, entity: LoopEntity) -> None:
    state, reason = world.states[entity.halt_at_task_key or ""], entity.halt_reason or ""
    marker = marker_of(state.issue_number, f"{entity.loop_id}/{state.sequence}")
    title = RULE[reason].title if reason in RULE else reason.replace("_", " ")
    view = CommentView(number=state.issue_number, marker=marker, reason=state.problem or title)
    post_once(app, state.issue_number, comment_text(app, "loop_halted", view), marker)
