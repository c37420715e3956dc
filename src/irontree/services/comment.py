"""Status comments: what an audible event says to the people who follow the issue (protocol, Comment Classes)."""

from __future__ import annotations

from dataclasses import replace

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.lint import status_problems
from irontree.domain.state import TaskState
from irontree.services.views import CommentView, comment_template


def comment_for(app: App, state: TaskState, record: Record[IssueEvent], marker: str) -> str:
    """The rendered comment of *record*; *state* is the state after it.

    Never one that the Slim Comment Invariant forbids (ruling R10): then the template's own words stand alone.
    """
    view = CommentView(
        number=state.issue_number,
        marker=marker,
        reason=_reason(record),
        action=str(record.meta.get("remedy", "")),
        attempt=state.attempt_count,
        attempts=state.total_attempts,
    )
    template = comment_template(record.event.event)
    text = app.renderer.render(template, comment=view)
    return app.renderer.render(template, comment=replace(view, reason="", action="")) if status_problems(text) else text


def _reason(record: Record[IssueEvent]) -> str:
    """One line: the reason given, the first of several, or what a person's decision was."""
    reasons = record.meta.get("reasons") or [record.meta.get("reason", "")]
    if record.meta.get("note") and not reasons[0]:
        return f"sent back by {record.meta.get('by', 'a person')}"
    return str(reasons[0])
