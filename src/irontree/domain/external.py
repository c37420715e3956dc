"""Changes made to an issue outside, which of them stop the work (protocol, External Events), and signed webhooks.

The forge is the authority on whether an issue exists and is open, the log on the progress of its work. Where they
disagree, the operator is asked; nothing is assumed silently.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal

from irontree.domain.events import CheckupUnblocked, IssueEvent, Record
from irontree.domain.machine import DETOURS, LEGAL
from irontree.domain.state import Phase, TaskState

IssuePresence = Literal["open", "closed", "gone"]
"""An issue's presence on the forge."""


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """An external change that stops the work: its name in the brief, its event and its `blocking_check`."""

    name: str
    event: str
    check: str
    reason: str
    remedy: str


CLOSED: Final = ExternalEvent(
    "issue_closed",
    "checkup_reconcile_external_close_detected",
    "closed-outside",
    "it was closed on the forge without completion evidence",
    "if its work goes on, say so, and it is opened again; else take it out of its document",
)
REOPENED: Final = ExternalEvent(
    "issue_reopened",
    "checkup_preflight_blocked",
    "reopened-outside",
    "it is done, and somebody opened it again on the forge",
    "if it stays done, say so, and it is closed again; if something is missing, change its text in the document "
    "and approve that with --reopen-changed",
)
DELETED: Final = ExternalEvent(
    "issue_deleted",
    "checkup_preflight_blocked",
    "deleted-outside",
    "it is gone from the forge",
    "bring it back there, or say that the work goes on without it; to give the work up, take it out of its document",
)
REQUEST_CLOSED: Final = "request-closed"
MERGED_MEANWHILE: Final = "merged-meanwhile"
MERGED_ELSEWHERE: Final = "merged-elsewhere"
MERGED_WITHOUT: Final = "merged-without-it"
MERGED_BY_AGENT: Final = "merged-by-agent"
MERGE_CHECKS: Final = frozenset({MERGED_MEANWHILE, MERGED_ELSEWHERE, MERGED_WITHOUT, MERGED_BY_AGENT})
"""Blocking checks about the merge of a request that is no acceptance (R15); it may have closed the issue."""
BY_CHECK: Final = {event.check: event for event in (CLOSED, REOPENED, DELETED)}


def detect(
    state: TaskState, seen: IssuePresence, *, was_closed: bool, records: Sequence[Record[IssueEvent]]
) -> ExternalEvent | None:
    """The contradiction to the log that the issue's *records* do not hold yet.

    *was_closed*: after it was done, the issue was seen closed. A deleted issue stays deleted, so it is reported once.
    """
    found = _contradiction(state, seen, was_closed=was_closed)
    if found is None or state.problem or found.event not in LEGAL[state.phase]:
        return None
    known = records if found is DELETED else tuple(takewhile(_is_hold, reversed(records)))
    return None if any(_is_recorded(found, record.event) for record in known) else found


def is_given_up(records: Sequence[Record[IssueEvent]]) -> bool:
    """Whether the issue was found deleted, and the work was resumed without it."""
    gone = next((at for at, record in enumerate(records) if _is_recorded(DELETED, record.event)), None)
    return gone is not None and any(isinstance(record.event, CheckupUnblocked) for record in records[gone:])


def _contradiction(state: TaskState, seen: IssuePresence, *, was_closed: bool) -> ExternalEvent | None:
    if state.at_rest.phase is Phase.DONE:
        opened_again = state.phase is Phase.DONE and seen == "open" and was_closed
        return REOPENED if opened_again else None
    return {"open": None, "closed": CLOSED, "gone": DELETED}[seen]


def _is_hold(record: Record[IssueEvent]) -> bool:
    """Whether the event holds the issue where it was: the records before it stay valid meanwhile."""
    return record.event.event in DETOURS


def _is_recorded(found: ExternalEvent, event: IssueEvent) -> bool:
    return event.event == found.event and getattr(event, "blocking_check", found.check) == found.check


# --- Signed webhooks


SIGNATURE: Final = "x-hub-signature-256"
CHANGES: Final = frozenset(
    {"closed", "reopened", "deleted", "edited", "transferred", "labeled", "unlabeled", "label_updated", "label_cleared"}
)
"""The forges' names for changes to an issue itself."""
_ABOUT_REQUESTS: Final = frozenset({"pull_request", "check_run", "check_suite", "workflow_run"})
"""What a payload about a request, its reviews or its checks holds; that of a commit status is told by its own keys."""


def is_signed(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether *body* was signed with *secret* (HMAC-SHA256); *headers* have lower-case names."""
    if not secret:
        return False
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get(SIGNATURE, "").encode(errors="replace"))


def changes_an_issue(payload: Mapping[str, Any]) -> bool:
    """Whether the webhook reports a change to an issue itself, not to a comment or a pull request."""
    return "issue" in payload and "comment" not in payload and payload.get("action") in CHANGES


def concerns_a_request(payload: Mapping[str, Any]) -> bool:
    """Whether the webhook is about a pull request, a review of one, or what CI says of a commit."""
    return not _ABOUT_REQUESTS.isdisjoint(payload) or {"sha", "state", "context"} <= payload.keys()


def changed_repository(body: bytes) -> str | None:
    """The page of the repository in which, as *body* says, an issue was changed; `None` for anything else."""
    return _page_if(changes_an_issue, body)


def request_repository(body: bytes) -> str | None:
    """The page of the repository in which, as *body* says, a request was changed; `None` for anything else."""
    return _page_if(concerns_a_request, body)


def _page_if(concerns: Callable[[Mapping[str, Any]], bool], body: bytes) -> str | None:
    try:
        payload = json.loads(body)
    except ValueError:
        return None
    if not isinstance(payload, dict) or not concerns(payload):
        return None
    repository = payload.get("repository")
    page = repository.get("html_url") if isinstance(repository, dict) else None
    return page if isinstance(page, str) else None
