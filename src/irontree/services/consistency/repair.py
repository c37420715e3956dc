"""Make again what is derived from log and plans, and clean up behind crashes (protocol, checkup repair).

What is approved and what happened stays as it is: events and plans are never written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from irontree.app import App
from irontree.domain.ids import adopted_revision
from irontree.domain.state import TaskState
from irontree.errors import RemoteFailed
from irontree.ports import Issue
from irontree.services.consistency.external import is_question_deleted, own_words, set_labels_back
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.recovery import catch_up
from irontree.services.loops.loop import remake_entity
from irontree.services.projections.brief import write_brief
from irontree.services.world import World, read_world


@dataclass(frozen=True, slots=True)
class Repaired:
    """Something that was not as the log says, and is now."""

    where: str
    what: str


def repair(app: App) -> tuple[Repaired, ...]:
    """Settle what crashes left, remake loop files, issue texts, labels and briefs; what was different.

    The caller holds the driver lock. What the forge cannot do now is told and tried again next time.
    """
    leftovers = app.upkeep.remove_leftovers()
    app.upkeep.drop_caches()
    catch_up(app)
    world = read_world(app)
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    found = (
        *((Repaired(".mino", f"{leftovers} half-written file(s) removed"),) if leftovers else ()),
        *(Repaired(f"loop {i}", "its file was made again from its events") for i in _remade(app)),
        *(one for state in states if state.task_key not in world.cancelled for one in _issue(app, world, state)),
        *(one for state in states for one in _brief(app, world, state)),
    )
    app.repository.back_up()
    return found


def _remade(app: App) -> tuple[str, ...]:
    return tuple(loop_id for loop_id in app.loops.ids() if remake_entity(app, loop_id))


def _issue(app: App, world: World, state: TaskState) -> Iterator[Repaired]:
    where = f"issue-{state.issue_number}"
    try:
        issue = app.forge().read_issue(state.issue_number)
        if issue is None or state.done or state.problem:
            return
        yield from (Repaired(where, change.what) for change in set_labels_back(app, state, issue))
        if not state.adopted and state.task_key in world.plans:
            yield from (Repaired(where, what) for what in _text(app, world, state, issue))
        yield from (Repaired(where, what) for what in _comment(app, state))
    except RemoteFailed as error:
        app.progress.note(f"{where} could not be repaired on the forge: {error.message}")
        return
    cursor = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(cursor, noticed=()))


def _text(app: App, world: World, state: TaskState, issue: Issue) -> Iterator[str]:
    """Our text of a published issue is a projection of its plan."""
    title, body = own_words(app, world, state)
    ours = adopted_revision(title, body)
    if adopted_revision(issue.title, issue.body) == ours:
        return
    app.forge().edit_issue(state.issue_number, title=title, body=body)
    cursor = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(cursor, text=ours))
    yield "its title and text were put back to what is approved"


def _comment(app: App, state: TaskState) -> Iterator[str]:
    """What the newest event asks must be there to be read; earlier ones that somebody deleted stay deleted."""
    if not is_question_deleted(app, state):
        return
    cursor = app.deliveries.load(state.issue_number)
    app.deliveries.save(state.issue_number, replace(cursor, sequence=state.sequence - 1))
    deliver(app, state.issue_number)
    yield "the comment that asks something was posted again"


def _brief(app: App, world: World, state: TaskState) -> Iterator[Repaired]:
    before = app.projections.read_brief(state.issue_number)
    write_brief(app, world, state)
    after = app.projections.read_brief(state.issue_number)
    if before is None and after is not None:
        yield Repaired(f"issue-{state.issue_number}", "its brief was made again")
    elif before is not None and (missing := _sections(after or "") - _sections(before)):
        yield Repaired(f"issue-{state.issue_number}", f"its brief lacked: {', '.join(sorted(missing))}")


def _sections(brief: str) -> set[str]:
    return {line.removeprefix("## ") for line in brief.splitlines() if line.startswith("## ")}
