"""`loop_halted` belongs to no issue: it is told on the one the loop halted at, if nothing else was (ruling R10).

What the loop itself asks (its budget, a gap) is told where it last worked: there a comment can answer it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from irontree.app import App
from irontree.domain.halt import RULE
from irontree.domain.loop import LoopEntity
from irontree.domain.state import TaskState
from irontree.errors import FORGE_FAILED, Busy
from irontree.ports import Stream
from irontree.services.delivery.asked import place_of
from irontree.services.delivery.comment import answers_to, comment_marker, comment_text, loop_marker, post_once
from irontree.services.delivery.deliver import due_comments
from irontree.services.loops.loop import Loop, read_loops
from irontree.services.projections.views import CommentView
from irontree.services.questions import question_of
from irontree.services.world import World, read_world

_FAILED: Final = "comment_post_failed: loop halted: "


def tell_halts(app: App) -> None:
    """Comment where a loop has halted at an issue whose newest event posted nothing; once for each such event.

    The caller holds the driver lock. What cannot be posted stands in the issue's cursor, and is tried again the next
    time work is taken up.
    """
    world = read_world(app)
    for loop in read_loops(app)[0]:
        if loop.entity.status == "halted":
            _tell_if_due(app, world, loop.entity)
            _tell_own_if_due(app, world, loop)


def tell_halts_if_free(app: App, who: str, *, wait_seconds: float) -> None:
    """Do so if the driver lock is free in time; if not, whoever takes work up next does."""
    with suppress(Busy), app.driver.hold(who, wait_seconds=wait_seconds):
        tell_halts(app)


def _tell_if_due(app: App, world: World, entity: LoopEntity) -> None:
    state = world.states.get(entity.halt_at_task_key or "")
    if state is None or world.halt_of(state) is None:  # answered, and the loop has not gone on yet
        return
    stream, cursor = app.log.read(state.issue_number), app.deliveries.load(state.issue_number)
    marker = comment_marker(state.issue_number, stream.records[-1], f"{state.renewed_from}/{entity.loop_id}")
    if marker != cursor.halt_told and not _has_told_itself(stream):
        _tell(app, state, marker, _view(app, state, entity, marker))


def _tell_own_if_due(app: App, world: World, loop: Loop) -> None:
    question, state = question_of(app, loop), place_of(loop, world)
    if question is None or state is None:
        return
    marker = loop_marker(state.issue_number, loop.id, question.sequence)
    if marker != app.deliveries.load(state.issue_number).halt_told:
        answers = tuple(choice.usage() for choice in question.rule.choices)
        view = CommentView(state.issue_number, marker, reason=question.detail or question.rule.title, answers=answers)
        _tell(app, state, marker, view)


def _tell(app: App, state: TaskState, marker: str, view: CommentView) -> None:
    cursor = app.deliveries.load(state.issue_number)
    others = tuple(failure for failure in cursor.failures if not failure.startswith(_FAILED))
    try:
        post_once(app, state.issue_number, comment_text(app, "loop_halted", view), marker)
    except FORGE_FAILED as error:
        now = replace(cursor, failures=(*others, f"{_FAILED}{error.message}"))
    else:
        now = replace(cursor, failures=others, halt_told=marker)
    app.deliveries.save(state.issue_number, now)


def _has_told_itself(stream: Stream) -> bool:
    return stream.last_sequence in {record.event.sequence for _, record in due_comments(stream)}


def _view(app: App, state: TaskState, entity: LoopEntity, marker: str) -> CommentView:
    reason = entity.halt_reason or ""
    title = RULE[reason].title if reason in RULE else reason.replace("_", " ")
    return CommentView(state.issue_number, marker, reason=state.problem or title, answers=answers_to(app, state))
