"""Which issues the forge shows otherwise than the log would have them, by a few listings alone (External Events).

To be asked every minute, however many issues there are: what it finds `reconcile` looks at, records and tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irontree.app import App
from irontree.domain.ids import adopted_revision
from irontree.domain.labels import ADOPTED, MANAGED, labels_for
from irontree.domain.state import Phase, TaskState
from irontree.ports import DeliveryCursor, Issue
from irontree.services.consistency.external import EDITED
from irontree.services.world import World, read_world

_FOLLOWS = MANAGED | {ADOPTED}


def disagreeing(app: App) -> frozenset[int]:
    """Numbers of issues that were closed, opened again, deleted, edited or labelled by others than us.

    What is ours to tell the forge yet is no disagreement. Reads only, and takes no lock. Raises RemoteFailed.
    """
    before = _settled(app)
    open_now = _open_issues(app, [state for state, _ in before])
    stays = _settled(app)  # what we did meanwhile was done by none of the others
    return frozenset(
        state.issue_number
        for state, cursor in before
        if (state, cursor) in stays and _differs(state, cursor, open_now.get(state.issue_number))
    )


def _settled(app: App) -> list[tuple[TaskState, DeliveryCursor]]:
    return [(state, cursor) for state, cursor in _cursors(app, read_world(app)) if _is_told(state, cursor)]


def _cursors(app: App, world: World) -> Iterator[tuple[TaskState, DeliveryCursor]]:
    for state in world.states.values():
        if state.problem is None and state.task_key not in world.cancelled and state.phase is not Phase.RUNNING:
            yield state, app.deliveries.load(state.issue_number)


def _is_told(state: TaskState, cursor: DeliveryCursor) -> bool:
    """Whether the forge was told all of it; of what is done, whether it was seen closed too."""
    return cursor.sequence >= state.sequence and not cursor.failures and (cursor.closed or not state.done)


def _open_issues(app: App, states: list[TaskState]) -> Mapping[int, Issue]:
    """What is open under any label that these states call for."""
    labels = sorted({min(labels_for(state) & MANAGED) for state in states})
    return {issue.number: issue for label in labels for issue in app.forge().open_issues(label)}


def _differs(state: TaskState, cursor: DeliveryCursor, shown: Issue | None) -> bool:
    if state.done or shown is None:
        return state.done is (shown is not None)
    return frozenset(shown.labels) & _FOLLOWS != labels_for(state) or _is_edited(state, cursor, shown)


def _is_edited(state: TaskState, cursor: DeliveryCursor, shown: Issue) -> bool:
    text = adopted_revision(shown.title, shown.body)
    if state.adopted:
        return bool(state.approvals) and text != state.approved_revision
    return bool(cursor.text) and text != cursor.text and EDITED not in cursor.noticed
