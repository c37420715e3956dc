"""What happened to an issue or a loop: look-ups in its records, each event in plain words, links, the event feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from irontree.app import App
from irontree.domain.checks import CheckReport
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.events import IssueEvent, Record, Reported
from irontree.domain.halt import RULE
from irontree.domain.loop import LoopEvent
from irontree.domain.meta import Meta
from irontree.domain.text import without_secrets
from irontree.errors import IrontreeError, LogDamaged
from irontree.ports import Forge, Stream
from irontree.services.loops.loop import read_loops
from irontree.services.record.world import read_world

# --- Look-ups in one issue's records that several texts need


def last_of(stream: Stream, *events: str) -> Record[IssueEvent] | None:
    """The newest record of one of these events; None if there is none."""
    return next((record for record in reversed(stream.records) if record.event.event in events), None)


def time_of(record: Record[IssueEvent] | None) -> str:
    """When it was recorded, as the log says; empty if it does not."""
    return record.told.time if record else ""


def request_url_of(stream: Stream) -> str:
    """Where the request is whose merge would accept the work; empty if the newest event proposes none."""
    return stream.records[-1].told.request_url if stream.records else ""


def document_of(event: IssueEvent) -> str | None:
    """The document in which this event says that notes were left; None for any other."""
    return event.promoted_doc if isinstance(event, Reported) else None


def newest_document(stream: Stream) -> str | None:
    """Where the notes of the newest verification that passed are, if it left any."""
    passed = last_of(stream, "verify_passed")
    return document_of(passed.event) if passed else None


def results_at(app: App, issue_number: int, anchor: str | None) -> CheckReport | None:
    """What the checks said at that commit, as far as it can be read: texts do without, `audit` names the file."""
    try:
        return app.results.load(issue_number, anchor) if anchor else None
    except LogDamaged:
        return None


# --- Events in plain words, one line each, for people who watch


def say_issue_event(record: Record[IssueEvent]) -> str:
    """What happened to the issue, with what matters of its particulars."""
    event, told = record.event, record.told
    words = _ISSUE_WORDS.get(event.event, event.event.replace("_", " "))
    if event.event == "verify_failed_retryable" and told.note:
        words = "sent back by {by}: “{note}”"
    if told.not_before:
        words += ", tried again after {not_before}"
    if told.allowed:
        words += "; allowed from now on: {allowed} (.mino/config.yml has it now: commit that)"
    document = document_of(event)
    if document:
        words += ", with notes in {document}"
    if told.warnings:
        words += ", but {warnings}"
    return words.format(
        attempt=event.attempt_count,
        started=event.attempt_count + (1 if event.event in ("run_commit_failed", "run_interrupted") else 0),
        attempts=1 + event.max_retry_count,
        commit=_short(event.code_ref),
        why="; ".join(told.why),
        by=told.by or getattr(event, "by", ""),
        note=told.note,
        check=getattr(event, "blocking_check", ""),
        allowed="; ".join(told.allowed),
        document=document,
        warnings="; ".join(told.warnings),
        not_before=told.not_before,
    )


def say_loop_event(record: Record[LoopEvent]) -> str:
    """What happened to the loop, with the note of whoever decided it."""
    told = record.told
    words = _loop_words(record.event, told)
    return f"{words} ({told.by}: “{told.note}”)" if told.note else words


def _loop_words(event: LoopEvent, told: Meta) -> str:
    match event.event:
        case "loop_started":
            return f"loop {event.loop_id} started"
        case "loop_halted" if getattr(event, "halt_reason", "") == "loop_budget_exhausted" and told.detail:
            return f"the loop stops here: no agent may spend more. {told.detail}"
        case "loop_budget_extended" if told.budget:
            return f"{getattr(event, 'by', '')} allows {told.budget.get('extra')} more"
        case "loop_halted":
            return f"the loop stops here: {_said_of(str(getattr(event, 'halt_reason', '')))}"
        case "loop_completed":
            return f"goal reached: {say_goal(told.skipped)}"
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


def _said_of(reason: str) -> str:
    title = RULE[reason].title if reason in RULE else reason.replace("_", " ")
    return title[0].lower() + title[1:]


def _short(code_ref: str | None) -> str:
    return code_ref[:7] if code_ref and code_ref != "not_applicable" else "(no change)"


# --- Addresses of an issue and of what belongs to it, for people


@dataclass(frozen=True, slots=True)
class IssueLinks:
    """Of one repository; without a forge that can be had every address is empty: what is shown does without."""

    forge: Forge | None

    def to_issue(self, number: int) -> str:
        """The page of the issue."""
        return (self.forge.issue_url(number) if self.forge else None) or ""

    def to_commit(self, sha: str | None) -> str:
        """The page of a commit that is published."""
        return (self.forge.commit_url(sha) if self.forge else None) or ""


def links_for(app: App) -> IssueLinks:
    """The links of this repository; nobody is asked."""
    try:
        return IssueLinks(app.forge())
    except IrontreeError:
        return IssueLinks(None)


# --- The event feed


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One event of the *stream* `issue.12` or `loop.ID`; *payload* holds its keys, `said` (in words) and `time`.

    *place* tells the streams apart that an issue had one after the other: each begins at sequence 1 (ruling R7).
    """

    event: str
    stream: str
    place: str
    sequence: int
    payload: Mapping[str, Any]


def event_feed(app: App, after: Mapping[str, int]) -> Iterator[FeedEntry]:
    """All events behind the sequences that *after* names by place, the oldest first in each."""
    for number, replay in sorted(read_world(app).replays.items()):
        if replay.state is None:
            continue
        stream = f"issue.{number}"
        place = "/".join(filter(None, (stream, replay.state.renewed_from)))
        if replay.state.sequence > after.get(place, 0):
            yield from _behind(after.get(place, 0), stream, place, app.log.read(number).records)
    for loop in read_loops(app)[0]:
        stream = f"loop.{loop.id}"
        if loop.sequence > after.get(stream, 0):
            yield from _behind(after.get(stream, 0), stream, stream, app.loops.read(loop.id).records)


def _behind(sequence: int, stream: str, place: str, records: Iterable[Record[Any]]) -> Iterator[FeedEntry]:
    for record in records:
        event: IssueEvent | LoopEvent = record.event
        if event.sequence > sequence:
            words = say_loop_event(record) if isinstance(event, LoopEvent) else say_issue_event(record)
            told = {"said": without_secrets(words), "time": record.told.time}
            yield FeedEntry(event.event, stream, place, event.sequence, event.model_dump(mode="json") | told)


# --- The command of a step


def step_command(step: Step, number: int) -> str:
    """The stepwise verb that takes this step."""
    match step:
        case Recover() | Run():
            return f"irontree run issue-{number}"
        case Verify():
            return f"irontree verify issue-{number}"
        case Finalize():
            return f"irontree checkup finalize issue-{number}"
        case Aggregate():
            return f"irontree checkup aggregate issue-{number}"
        case _:
            assert_never(step)
