"""Events in plain words, one line each, for people who watch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import RULE
from irontree.domain.loop_events import LoopEvent
from irontree.services.projections.history import document_of


def say_issue_event(record: Record[IssueEvent]) -> str:
    """What happened to the issue, with what matters of its particulars."""
    event, meta = record.event, record.meta
    words = _ISSUE_WORDS.get(event.event, event.event.replace("_", " "))
    if event.event == "verify_failed_retryable" and meta.get("note"):
        words = "sent back by {by}: “{note}”"
    if meta.get("not_before"):
        words += ", tried again after {not_before}"
    if meta.get("allowed"):
        words += "; allowed from now on: {allowed} (.mino/config.yml has it now: commit that)"
    document = document_of(event)
    if document:
        words += ", with notes in {document}"
    if meta.get("warnings"):
        words += ", but {warnings}"
    return words.format(
        attempt=event.attempt_count,
        started=event.attempt_count + (1 if event.event in ("run_commit_failed", "run_interrupted") else 0),
        attempts=1 + event.max_retry_count,
        commit=_short(event.code_ref),
        why=_why(meta),
        by=meta.get("by") or getattr(event, "by", ""),
        note=meta.get("note", ""),
        check=getattr(event, "blocking_check", ""),
        allowed="; ".join(map(str, meta.get("allowed", ()))),
        document=document,
        warnings="; ".join(map(str, meta.get("warnings", ()))),
        not_before=meta.get("not_before", ""),
    )


def say_loop_event(record: Record[LoopEvent]) -> str:
    """What happened to the loop, with the note of whoever decided it."""
    note, by = record.meta.get("note"), record.meta.get("by")
    return f"{_loop_words(record)} ({by}: “{note}”)" if note else _loop_words(record)


def _loop_words(record: Record[LoopEvent]) -> str:
    event = record.event
    match event.event:
        case "loop_started":
            return f"loop {event.loop_id} started"
        case "loop_halted" if getattr(event, "halt_reason", "") == "loop_budget_exhausted" and record.meta.get(
            "detail"
        ):
            return f"the loop stops here: no agent may spend more. {record.meta['detail']}"
        case "loop_budget_extended" if isinstance(record.meta.get("budget"), dict):
            return f"{getattr(event, 'by', '')} allows {record.meta['budget'].get('extra')} more"
        case "loop_halted":
            return f"the loop stops here: {_said_of(str(getattr(event, 'halt_reason', '')))}"
        case "loop_completed":
            return f"goal reached: {say_goal(record.meta.get('skipped', ()))}"
        case "loop_cancelled" if getattr(event, "task_key", None):
            return f"skipped: {getattr(event, 'task_key', '')}"
        case other:
            return other.replace("_", " ")


def say_goal(skipped: Iterable[str]) -> str:
    """What is done in a loop that reached its goal, whose tasks *skipped* were left out."""
    left_out = ", ".join(sorted(skipped))
    return "everything in scope is done" + (f" but what was skipped: {left_out}" if left_out else "")


_ISSUE_WORDS = {
    "task_published": "published",
    "task_adopted": "adopted, waits for its approval",
    "task_re_adopted": "adopted anew, waits for its approval",
    "task_approved": "approved by {by}",
    "task_reapproval_required": "needs approval again: {why}",
    "run_started": "attempt {attempt} of {attempts}: the agent works",
    "run_completed": "attempt {attempt} of {attempts}: committed {commit}",
    "run_commit_failed": "attempt {started} given back: git refused the commit",
    "run_interrupted": "attempt {started} given back: {why}",
    "verify_passed": "verified, published as {commit}",
    "verify_failed_retryable": "verification failed at attempt {attempt} of {attempts}",
    "verify_failed_terminal": "verification failed, all {attempts} attempts are used up",
    "verify_pending_acceptance": "waits for a person: {why}",
    "verify_publication_failed": "verified, but not published yet: {why}",
    "checkup_preflight_blocked": "blocked ({check}): {why}",
    "checkup_unblocked": "goes on, says {by}",
    "checkup_accept_recorded": "accepted by {by}, published as {commit}",
    "checkup_accept_publication_failed": "accepted, but not published yet: {why}",
    "checkup_aggregate_recorded": "all its parts are done",
    "checkup_done": "done",
    "checkup_reconcile_external_close_detected": "closed outside, without evidence",
    "checkup_reconcile_sequence_gap_detected": "events are missing",
}


def _why(meta: dict[str, Any]) -> str:
    reasons = meta.get("reasons") or [meta.get("reason", "")]
    return "; ".join(str(reason) for reason in reasons)


def _said_of(reason: str) -> str:
    title = RULE[reason].title if reason in RULE else reason.replace("_", " ")
    return title[0].lower() + title[1:]


def _short(code_ref: str | None) -> str:
    return code_ref[:7] if code_ref and code_ref != "not_applicable" else "(no change)"
