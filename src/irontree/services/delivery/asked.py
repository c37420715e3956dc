"""The open questions of a repository, each with the issue under which a comment answers it (rulings R9, R10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import TaskState
from irontree.ports import Comment
from irontree.services.delivery.comment import comment_marker, loop_marker
from irontree.services.listed_questions import given_up
from irontree.services.loops.loop import Loop, loop_of, read_loops, still_open
from irontree.services.questions import Question, question_about, question_of
from irontree.services.world import World, read_world

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """An open question, and what tells comments behind it from those before: our comment that asks, or the time."""

    question: Question
    issue_number: int
    markers: tuple[str, ...]
    """Those that our comment that asks may have."""
    at: datetime
    """When it was asked, by our clock."""

    def is_asked_by(self, comment: Comment) -> bool:
        """Whether it is our comment that asks."""
        return comment.ours and any(marker in comment.body for marker in self.markers)

    def came_before(self, comment: Comment, among: tuple[Comment, ...]) -> bool:
        """Whether it was posted before the question was asked; the forge's order counts where it shows ours."""
        asking = [at for at, known in enumerate(among) if self.is_asked_by(known)]
        if asking:
            return among.index(comment) < asking[0]
        return _moment(comment.created_at) <= self.at


def asked_in_comments(app: App) -> tuple[Asked, ...]:
    """What issues and loops ask now; not of tasks that were skipped, or whose loop was stopped. Reads only."""
    world, every = read_world(app), read_loops(app)[0]
    loops, nobodys = still_open(every), given_up(every, world)
    states = (state for key, state in world.states.items() if key not in nobodys)
    of_issues = (_of_issue(app, world, loops, state) for state in states)
    return (*(asked for asked in of_issues if asked), *_of_loops(app, world, loops))


def asked_at(app: App, issue_number: int) -> Asked | None:
    """What is asked under that issue now."""
    return next((asked for asked in asked_in_comments(app) if asked.issue_number == issue_number), None)


def place_of(loop: Loop, world: World) -> TaskState | None:
    """Under which issue a question of the loop itself stands: that of its last transition; None before the first."""
    last = loop.entity.transitions[-1].task_key if loop.entity.transitions else ""
    return world.states.get(last)


def _of_issue(app: App, world: World, loops: tuple[Loop, ...], state: TaskState) -> Asked | None:
    rule = world.halt_of(state)
    if rule is None:
        return None
    loop_id, record = loop_of(loops, state.task_key), app.log.read(state.issue_number).records[-1]
    return Asked(
        question_about(state, rule, loop_id), state.issue_number, issue_markers(state, record, loop_id), _time(record)
    )


def issue_markers(state: TaskState, record: Record[IssueEvent], loop_id: str | None) -> tuple[str, ...]:
    """The marker of the comment that *record* posts, and that of the halt of its loop (ruling R10)."""
    suffixes = (state.renewed_from, f"{state.renewed_from}/{loop_id}")
    return tuple(comment_marker(state.issue_number, record, suffix) for suffix in suffixes)


def _of_loops(app: App, world: World, loops: tuple[Loop, ...]) -> Iterator[Asked]:
    for loop in loops:
        question, state = question_of(app, loop), place_of(loop, world)
        if question and state and not world.halt_of(state):
            records = app.loops.read(loop.id).records
            marker = loop_marker(state.issue_number, loop.id, question.sequence)
            yield Asked(question, state.issue_number, (marker,), _moment(records[-1].meta.get("time")))


def _time(record: Record[IssueEvent]) -> datetime:
    return _moment(record.meta.get("time"))


def _moment(text: object) -> datetime:
    """ISO 8601, UTC where no zone is named; what was written by hand and is no time counts as long ago."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return LONG_AGO
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
