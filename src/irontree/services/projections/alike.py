"""Attempts that failed in the same way, side by side: what each changed, and how it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.fingerprint import excerpt
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import GitFailed
from irontree.ports import LineCount, Stream
from irontree.services.projections.history import results_at
from irontree.services.projections.views import AttemptView

FILES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A failed verification, and the commits that its attempt began with and left; None where it changed nothing."""

    failed: Record[IssueEvent]
    began_with: str | None
    left: str | None
    said: str


def attempts_alike(app: App, stream: Stream, state: TaskState) -> tuple[AttemptView, ...]:
    """The last attempts, oldest first, if at least two in a row failed in the same way."""
    if not state.fails_alike:
        return ()
    return tuple(_view(app, state, attempt) for attempt in _attempts(stream)[-state.same_failures :])


def _attempts(stream: Stream) -> list[_Attempt]:
    found: list[_Attempt] = []
    base = began_with = left = None
    said = ""
    for record in stream.records:
        match record.event.event:
            case "run_started":
                # A later attempt begins with the commit of the one before, if it stands on the same base (R5).
                same = record.meta.get("base_sha") == base
                base = record.meta.get("base_sha")
                began_with = left if same and left else base
            case "run_completed":
                left, said = _commit(record.event.code_ref), str(record.meta.get("summary", ""))
            case "verify_failed_retryable" | "verify_failed_terminal":
                found.append(_Attempt(record, began_with, left, said))
            case _:
                pass
    return found


def _commit(code_ref: str | None) -> str | None:
    return code_ref if code_ref != NOT_APPLICABLE else None


def _view(app: App, state: TaskState, attempt: _Attempt) -> AttemptView:
    meta, anchor = attempt.failed.meta, getattr(attempt.failed.event, "verify_anchor_sha", None)
    report = results_at(app, state.issue_number, anchor)
    check = report.failed if report else None
    return AttemptView(
        number=attempt.failed.event.attempt_count,
        commit=attempt.left or "",
        changed=_changed(app, attempt),
        said=attempt.said,
        failed_check=check.shown if check else str(meta.get("failed_check", "verification")),
        excerpt=excerpt(check) if check else str(meta.get("output", "")),
    )


def _changed(app: App, attempt: _Attempt) -> tuple[str, ...]:
    if not (attempt.began_with and attempt.left):
        return ()
    try:
        counts = app.repository.line_counts(attempt.began_with, attempt.left)
    except GitFailed:  # somebody removed our refs: the rest of the form still helps
        return ("the commits are not here any more",)
    rest = len(counts) - FILES_SHOWN
    return (*map(_words, counts[:FILES_SHOWN]), *((f"and {rest} more",) if rest > 0 else ()))


def _words(count: LineCount) -> str:
    return count.path if count.added is None else f"{count.path} +{count.added} -{count.removed}"
