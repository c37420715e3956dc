"""CI that failed through no fault of the code, as its agent says: an issue about it, and a block that names it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from irontree.app import App
from irontree.domain.comments import foreign
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import INFRASTRUCTURE_AT_FAULT
from irontree.domain.instructions import CAUSE
from irontree.domain.state import TaskState
from irontree.domain.task_types import INFRASTRUCTURE
from irontree.domain.text import one_line
from irontree.ports import Label, Stream
from irontree.services.views.history import last_of
from irontree.services.work.preflight import block

_COLOR: Final = "1d76db"
_LONGEST: Final = 2_000
"""Characters of what the agent says."""


def stop_at_infrastructure(app: App, state: TaskState) -> TaskState | None:
    """File one issue about it, and record a block that names it; None unless the last attempt says so.

    That attempt was for a failure of CI, changed nothing, and nobody has answered the block yet. Raises RemoteFailed.
    """
    stream = app.log.read(state.issue_number)
    red, tried = last_of(stream, "verify_failed_retryable"), last_of(stream, "run_completed")
    if red is None or tried is None or _was_asked(stream, tried):
        return None
    said = tried.told.report or {}
    at_fault = said.get(CAUSE, "").strip().casefold().startswith(INFRASTRUCTURE.words)
    if not (at_fault and red.told.failed_at and tried.event.code_ref == red.told.failed_at):
        return None
    number = _filed(app, state, red, said)
    return block(
        app,
        state,
        INFRASTRUCTURE_AT_FAULT,
        f"the agent changed nothing, since {one_line(red.told.failed_check)} failed because of the infrastructure: see "
        f"#{number}",
        remedy=f"put #{number} right, have the check run again, then go on: the same commit waits for it",
    )


def _was_asked(stream: Stream, tried: Record[IssueEvent]) -> bool:
    """Whether this attempt was blocked for it before: somebody went on from that."""
    later = (record.event for record in stream.records if record.event.sequence > tried.event.sequence)
    return any(getattr(event, "blocking_check", None) == INFRASTRUCTURE_AT_FAULT for event in later)


def _filed(app: App, state: TaskState, red: Record[IssueEvent], said: Mapping[str, str]) -> int:
    """The number of the open issue about that check, which is filed once; a filed issue starts nothing (T4)."""
    check = red.told.failed_check
    marker = f"<!-- irontree:infrastructure {sha256(check.encode()).hexdigest()[:16]} -->"
    there = (issue for issue in app.forge().find_issues(marker) if issue.trusted and issue.state == "open")
    if found := next(there, None):
        return found.number
    label = INFRASTRUCTURE.type_label
    app.forge().ensure_labels([Label(label, _COLOR, INFRASTRUCTURE.about)])
    words = "\n".join(f"{name}: {text}" for name, text in said.items() if name != CAUSE) or red.told.output
    quoted = "\n".join(f"> {line}" for line in foreign(words[:_LONGEST]).splitlines())
    name = foreign(one_line(check))
    body = (
        f"The check {name} failed for #{state.issue_number} at {red.told.failed_at[:12]}. Its agent changed nothing, "
        f"and says that the infrastructure is at fault:\n\n{quoted}\n\n{marker}\n"
    )
    return app.forge().create_issue(f"{name} fails because of the infrastructure", body, [label]).number
