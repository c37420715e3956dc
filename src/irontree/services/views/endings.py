"""How a step of an issue ended: a name of few words, whether that is a failure, and why, each in one line."""

from __future__ import annotations

from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent
from irontree.domain.checks import ReviewCheck, complaint_of, telling_lines
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import AGENT_ASKS, block_title
from irontree.domain.text import one_line
from irontree.domain.values import NOT_APPLICABLE
from irontree.services.views.history import failed_check, say_issue_event

LONGEST: Final = 200
"""Characters of a reason."""
READY: Final = "workspace-not-ready"


class Ending(NamedTuple):
    """The name of a step's end, what else there is to say, and whether it is a failure."""

    name: str
    why: str = ""
    failed: bool = False


def request_ending(request: AskedAgent) -> Ending:
    """How far a request to an agent has come."""
    if request.state == "done":
        return Ending("Answered", request.posted or request.reason)
    return Ending("No answer" if request.state == "failed" else "Waiting", request.reason, request.state == "failed")


def ending_of(app: App, record: Record[IssueEvent]) -> Ending:
    """How the step ended whose last event this is."""
    event = record.event
    name, failed = _ENDINGS.get(event.event, ("Completed", False))
    why = say_issue_event(record)
    match event.event:
        case "run_completed" if event.code_ref == NOT_APPLICABLE:
            attempt = f"attempt {event.attempt_count} of {1 + event.max_retry_count}"
            return Ending("No change", f"{attempt}: the agent left every file as it was", failed=True)
        case "verify_failed_retryable" | "verify_failed_terminal":
            failing = failed_check(app, event)
            if failing and isinstance(failing.check, ReviewCheck):
                name = "Review failed"
            why = complaint_of(failing) if failing else record.told.failed_check or why
        case "verify_passed" if event.code_ref == NOT_APPLICABLE:
            name = "Passed"
        case "checkup_preflight_blocked":
            check = getattr(event, "blocking_check", None)
            name, failed = _BLOCKED.get(check or "", (block_title(check), True))
            why = _decisive("; ".join(record.told.why)) or why
        case _:
            pass
    return Ending(name, _short(why), failed)


def _decisive(text: str) -> str:
    """What was tried, and the last line of its output that tells why it failed."""
    first, _, output = text.partition("\n")
    return f"{first} {telling_lines(output)[-1]}" if output.strip() else first


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


_BLOCKED: Final = {
    READY: ("Set-up failed", True),
    AGENT_ASKS: ("The agent asks", False),
    "checks-red-before": ("Checks fail without any change", True),
}
_ENDINGS: Final = {
    "run_completed": ("Committed", False),
    "run_commit_failed": ("Commit refused", True),
    "run_interrupted": ("Interrupted", True),
    "verify_passed": ("Published", False),
    "verify_pending_acceptance": ("Verified", False),
    "verify_failed_retryable": ("Checks failed", True),
    "verify_failed_terminal": ("Checks failed", True),
    "verify_publication_failed": ("Not published", True),
    "checkup_done": ("Done", False),
    "checkup_aggregate_recorded": ("Parts done", False),
    "task_reapproval_required": ("Approval needed", False),
}
