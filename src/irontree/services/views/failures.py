"""Why attempts failed: the failing output, what the agent was denied, and attempts that failed in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from irontree.app import App
from irontree.domain.checks import excerpt
from irontree.domain.events import IssueEvent, Record
from irontree.domain.plan import PermissionRule, entry_of, missing_rule
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import GitFailed
from irontree.ports import LineCount, Stream
from irontree.services.views.history import last_of, results_at, time_of
from irontree.services.views.values import AttemptView, DeniedView, FailureView

# --- Why something failed, as briefs, prompts and forms show it


_NOT_PUBLISHED: Final = {
    "verify_publication_failed": "publication",
    "checkup_accept_publication_failed": "checkup accept publication",
}
"""Events after which only publication is left, and what the brief calls what failed."""


def failure_of(app: App, stream: Stream, state: TaskState) -> FailureView | None:
    """The failure whose context the next attempt gets: check output, git's refusal, or a person's note."""
    record = next((r for r in stream.records if r.event.sequence == state.failure_sequence), None)
    if record is None:
        return None
    event = record.event
    anchor = getattr(event, "verify_anchor_sha", None)
    report = results_at(app, state.issue_number, anchor)
    check = report.failed if report else None
    note = record.told.note or _note_since(stream, event.sequence)
    return FailureView(
        failed_check=_what_failed(record, check.shown if check else ""),
        anchor=anchor,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome=event.pass_fail_outcome or "commit refused",
        captured_at=time_of(record),
        output=check.output if check else record.told.output,
        note=note,
        said=_said_by_who_gave_up(stream, event.sequence),
    )


def _note_since(stream: Stream, sequence: int) -> str:
    """What the person wrote who last let the work go on behind the event with that *sequence*."""
    later = (record for record in reversed(stream.records) if record.event.sequence > sequence)
    cleared = next((record for record in later if record.event.event == "checkup_unblocked"), None)
    return cleared.told.note if cleared else ""


def claims_failure(completed: Record[IssueEvent]) -> bool:
    """Whether the agent of a completed attempt says itself that it did not do what was asked."""
    return str(completed.told.agent.get("claims_success")).lower() == "false"


def _said_by_who_gave_up(stream: Stream, before: int) -> str:
    """The last words of the agent whose attempt the event with the sequence *before* is about."""
    earlier = (record for record in reversed(stream.records) if record.event.sequence < before)
    completed = next((record for record in earlier if record.event.event == "run_completed"), None)
    return completed.told.summary if completed and claims_failure(completed) else ""


def publication_failure_of(stream: Stream) -> FailureView | None:
    """Why the newest verification or acceptance could not be published; None if it is not that which is left to do.

    The next attempt is never told: its code is fine (contract, outcome E).
    """
    record = stream.records[-1] if stream.records else None
    if record is None or record.event.event not in _NOT_PUBLISHED:
        return None
    event = record.event
    verified = last_of(stream, "verify_publication_failed", "verify_pending_acceptance")
    return FailureView(
        failed_check=_NOT_PUBLISHED[event.event],
        anchor=getattr(verified.event, "verify_anchor_sha", None) if verified else None,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome="publication_failed",
        captured_at=time_of(record),
        output=record.told.reason,
    )


def _what_failed(record: Record[IssueEvent], check: str) -> str:
    if record.event.event == "run_commit_failed":
        return "git commit"
    otherwise = "sent back by a person" if record.told.note else "verification"
    return check or record.told.failed_check or otherwise


# --- What an agent asked leave for and was denied, for the person who can add the rule


def denied_of(stream: Stream) -> DeniedView | None:
    """What was denied in the newest attempt that ended; None if nothing was."""
    denied = _denied_words(stream)
    return DeniedView(denied, tuple(map(entry_of, rules_for_denied(stream)))) if denied else None


def rules_for_denied(stream: Stream) -> tuple[PermissionRule, ...]:
    """The rules that would have allowed it, and nothing else."""
    return tuple(dict.fromkeys(rule for words in _denied_words(stream) if (rule := missing_rule(words))))


def rules_in_words(rules: Sequence[PermissionRule]) -> tuple[str, ...]:
    """Each rule in short: the kind of tool, and what it is about."""
    return tuple(f"{rule.tool} {rule.match}" for rule in rules)


def denied_lines(stream: Stream) -> tuple[str, ...]:
    """What was denied, a line for each."""
    return tuple(f"the agent asked for leave and was denied: {words}" for words in _denied_words(stream))


def _denied_words(stream: Stream) -> tuple[str, ...]:
    ended = last_of(stream, "run_completed", "run_interrupted")
    return tuple(map(str, ended.told.agent.get("denied", ()))) if ended else ()


# --- Attempts that failed in the same way, side by side: what each changed, and how it failed


FILES_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A failed verification, and the commits that its attempt began with and left; None where it changed nothing."""

    failed: Record[IssueEvent]
    began_with: str | None
    left: str | None
    said: str


def repeated_failures(app: App, stream: Stream, state: TaskState) -> tuple[AttemptView, ...]:
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
                told_base = record.told.base_sha or None
                same, base = told_base == base, told_base
                began_with = left if same and left else base
            case "run_completed":
                left, said = _commit(record.event.code_ref), record.told.summary
            case "verify_failed_retryable" | "verify_failed_terminal":
                found.append(_Attempt(record, began_with, left, said))
            case _:
                pass
    return found


def _commit(code_ref: str | None) -> str | None:
    return code_ref if code_ref != NOT_APPLICABLE else None


def _view(app: App, state: TaskState, attempt: _Attempt) -> AttemptView:
    told, anchor = attempt.failed.told, getattr(attempt.failed.event, "verify_anchor_sha", None)
    report = results_at(app, state.issue_number, anchor)
    check = report.failed if report else None
    return AttemptView(
        number=attempt.failed.event.attempt_count,
        commit=attempt.left or "",
        changed=_changed(app, attempt),
        said=attempt.said,
        failed_check=check.shown if check else told.failed_check or "verification",
        excerpt=excerpt(check) if check else told.output,
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
