"""Closing an issue that is done, unless that is left to a person (protocol, Close On Done)."""

from __future__ import annotations

from collections.abc import Collection

from irontree.app import App
from irontree.domain import reply
from irontree.domain.plan import PlanNode
from irontree.domain.state import TaskState
from irontree.domain.values import CloseOnDone
from irontree.services.world import read_world


def close_on_done(app: App, node: PlanNode | None) -> CloseOnDone:
    """`issue.close_on_done`, or what holds where it is unset. Raises ConfigRefused where it cannot be read."""
    return reply.close_on_done(app.preferences().close_on_done, node)


def is_closed_by_us(app: App, state: TaskState) -> bool:
    """Whether the issue is done, and nobody else closes it."""
    return state.done and close_on_done(app, read_world(app).nodes.get(state.task_key)) == "auto"


def left_to_people(app: App, task_keys: Collection[str]) -> tuple[int, ...]:
    """The issues among these tasks that are done, and that a person closes."""
    states = (state for key, state in read_world(app).states.items() if key in task_keys)
    return tuple(sorted(state.issue_number for state in states if state.done and not is_closed_by_us(app, state)))


def close_where_due(app: App, state: TaskState) -> None:
    """Close an issue that is done and still open."""
    if not is_closed_by_us(app, state):
        return
    issue = app.forge().read_issue(state.issue_number)
    if issue and issue.state == "open":
        app.forge().edit_issue(state.issue_number, state="closed")
