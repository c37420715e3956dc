"""What happened to an issue or a loop, and why attempts failed: records, events as text, links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from irontree.app import App
from irontree.domain.checks import CheckReport, CheckResult, excerpt
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.events import IssueEvent, Record, Reported, verified_at
from irontree.domain.halt import SECRET_IN_COMMIT, halt_title
from irontree.domain.loop import LoopEvent
from irontree.domain.meta import Meta
from irontree.domain.permissions import PermissionRule, entry_of, missing_rule
from irontree.domain.protection import LineCount
from irontree.domain.state import TaskState
from irontree.domain.text import few, one_line, without_secrets
from irontree.domain.values import NOT_APPLICABLE, short_sha
from irontree.domain.workflow.step import passed_in_words
from irontree.errors import GitFailed, IrontreeError, LogDamaged
from irontree.ports import Links, Stream
from irontree.services.loops.loop import read_loops
from irontree.services.record import read_world

# --- Records of one issue


def last_of(stream: Stream, *events: str) -> Record[IssueEvent] | None:
    """The newest record of any of these events; None if there is none."""
    return next((record for record in reversed(stream.records) if record.event.event in events), None)


def time_of(record: Record[IssueEvent] | None) -> str:
    """When it was recorded, according to the log; empty if the log does not say."""
    return record.told.time if record else ""


def request_url_of(stream: Stream) -> str:
    """The address of the pull request whose merge would accept the work; empty if the newest event proposes none."""
    return stream.records[-1].told.request_url if stream.records else ""


def last_words_of(stream: Stream) -> str:
    """What the agent of the newest attempt that ended said last: a claim; empty if it said nothing."""
    ended = last_of(stream, "run_completed", "run_interrupted")
    return ended.told.summary if ended else ""


def document_of(event: IssueEvent) -> str | None:
    """The document in which this event says that notes were left; None if it names none."""
    return event.promoted_doc if isinstance(event, Reported) else None


def newest_document(stream: Stream) -> str | None:
    """The document with the notes of the newest passed verification; None if it left none."""
    passed = last_of(stream, "verify_passed")
    return document_of(passed.event) if passed else None


def failed_check(app: App, event: IssueEvent) -> CheckResult | None:
    """The check that failed in this event's verification; None if there is none or its results cannot be read."""
    report = results_at(app, event.issue_number, verified_at(event))
    return report.failed if report else None


def results_at(app: App, issue_number: int, anchor: str | None) -> CheckReport | None:
    """The check results at that commit; None if they cannot be read, which `audit` reports."""
    try:
        return app.results.load(issue_number, anchor) if anchor else None
    except LogDamaged:
        return None


# --- Events as text, one line each


def say_issue_event(record: Record[IssueEvent]) -> str:
    """What happened to the issue, with the important details."""
    event, told = record.event, record.told
    words = _ISSUE_WORDS[event.event]
    if event.event in _SENT_BACK and told.note:
        words = _SENT_BACK[event.event]
    if told.dropped:
        words += "; changes left out of the commit: {dropped}"
    if event.event == "verify_passed":
        words = passed_in_words(short_sha(event.code_ref), told.reasons, told.gate)
    if event.event == "verify_failed_terminal" and told.reason:
        words += ": {why}"
    if event.event == "checkup_accept_publication_failed" and told.remedy:
        words += ". What to do: {remedy}"
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
        commit=short_sha(event.code_ref) or "(no change)",
        why=one_line("; ".join(told.why)),
        by=told.by or getattr(event, "by", ""),
        note=told.note,
        worker=told.member or "the agent",
        remedy=told.remedy,
        check=getattr(event, "blocking_check", ""),
        allowed="; ".join(told.allowed),
        dropped=few(told.dropped),
        document=document,
        warnings="; ".join(told.warnings),
        not_before=told.not_before,
    )


def say_loop_event(record: Record[LoopEvent]) -> str:
    """What happened to the loop, with the note of the user who decided it."""
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
            title = halt_title(str(getattr(event, "halt_reason", "")))
            others = f", and {len(told.waiting) - 1} more" if len(told.waiting) > 1 else ""
            return f"the loop stops here: {title[0].lower()}{title[1:]}{others}"
        case "loop_completed":
            return f"goal reached: {say_goal(told.skipped)}"
        case "loop_cancelled" if getattr(event, "task_key", None):
            return f"skipped: {getattr(event, 'task_key', '')}"
        case other:
            return other.replace("_", " ")


def say_goal(skipped: Iterable[str]) -> str:
    """The goal that a loop reached, with the tasks in *skipped* that it left out."""
    left_out = ", ".join(sorted(skipped))
    return "everything in scope is done" + (f" but what was skipped: {left_out}" if left_out else "")


_SENT_BACK: Final = {
    "verify_failed_retryable": "sent back by {by}: “{note}”",
    "verify_failed_terminal": "sent back by {by}: “{note}”; attempts used up: {attempts}",
}
"""What it says if a person did not accept the work."""
_ISSUE_WORDS = {
    "task_published": "published",
    "task_adopted": "adopted, waits for its approval",
    "task_re_adopted": "adopted anew, waits for its approval",
    "task_approved": "approved by {by}",
    "task_reapproval_required": "needs approval again: {why}",
    "run_started": "attempt {attempt} of {attempts}: {worker} works",
    "run_completed": "attempt {attempt} of {attempts}: committed {commit}",
    "run_commit_failed": "attempt {started} does not count: git refused the commit",
    "run_interrupted": "attempt {started} was interrupted and does not count: {why}",
    "verify_passed": "verified",
    "verify_failed_retryable": "verification failed at attempt {attempt} of {attempts}",
    "verify_failed_terminal": "verification failed; attempts used up: {attempts}",
    "verify_pending_acceptance": "waits for a person: {why}",
    "verify_publication_failed": "verified, but not published yet: {why}",
    "checkup_preflight_blocked": "blocked ({check}): {why}",
    "checkup_unblocked": "resumed by {by}",
    "checkup_accept_recorded": "accepted by {by}, published as {commit}",
    "checkup_accept_publication_failed": "not accepted yet: {why}",
    "checkup_aggregate_recorded": "all its parts are done",
    "checkup_done": "done",
    "checkup_reconcile_external_close_detected": "closed outside, without evidence",
    "checkup_reconcile_sequence_gap_detected": "events are missing",
}


# --- Addresses of an issue and of what belongs to it


def links_for(app: App) -> Links:
    """The links of this repository; none if it has no usable forge, since texts do without them."""
    try:
        return app.forge().links
    except IrontreeError:
        return Links(None)


def page_of_issue(app: App, number: int) -> str | None:
    """The issue's page on the forge."""
    return links_for(app).issue(number)


_FORGES: Final = {"github": "GitHub", "gitea": "Gitea", "local": "Local forge"}
_LOCAL_ISSUE: Final = ".mino/forge/issues/{:04}.md"


def place_of_issue(app: App, number: int) -> tuple[str, str]:
    """The forge by its name for people, and the issue there: its number with its page, or with its file."""
    try:
        forge = app.forge()
    except IrontreeError:
        return "Forge", f"#{number}"
    address = forge.links.issue(number) or (_LOCAL_ISSUE.format(number) if forge.name == "local" else "")
    return _FORGES.get(forge.name, forge.name), " ".join(filter(None, (f"#{number}", address)))


# --- The event feed


class FeedEntry(NamedTuple):
    """One event of the *stream* `issue.12` or `loop.ID`; *payload* holds its keys, `said` (as text) and `time`.

    *place* distinguishes the successive streams of one issue, each of which begins at sequence 1 (R7).
    """

    event: str
    stream: str
    place: str
    sequence: int
    payload: Mapping[str, Any]


def event_feed(app: App, after: Mapping[str, int]) -> Iterator[FeedEntry]:
    """All events after the sequences that *after* gives by place, oldest first within each place."""
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
    """The stepwise command that takes this step."""
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


# --- Why something failed, for briefs, prompts and forms


class FailureView(NamedTuple):
    """Why an attempt or a publication failed; `output` is already truncated (50 lines, a marker, 20 lines)."""

    failed_check: str
    anchor: str | None
    attempt: int
    attempts: int
    outcome: str
    captured_at: str
    output: str
    note: str = ""
    """The note of the user who sent the work back (R14)."""
    said: str = ""
    """The last message of an agent that itself says it did not do the work."""


_NOT_PUBLISHED: Final = {
    "verify_publication_failed": "publication",
    "checkup_accept_publication_failed": "checkup accept publication",
}
"""Events after which only publication is left, with the brief's name for what failed."""


def failure_of(app: App, stream: Stream, state: TaskState) -> FailureView | None:
    """The failure that the next attempt is given as context: check output, git's refusal, or a user's note."""
    record = next((r for r in stream.records if r.event.sequence == state.failure_sequence), None)
    unpublished = last_of(stream, "checkup_preflight_blocked")
    if unpublished and getattr(unpublished.event, "blocking_check", None) == SECRET_IN_COMMIT:
        record = unpublished if record is None or unpublished.event.sequence > record.event.sequence else record
    if record is None:
        return None
    event = record.event
    failed = failed_check(app, event)
    note = record.told.note or _note_since(stream, event.sequence)
    return FailureView(
        failed_check=_what_failed(record, failed.check.shown if failed else ""),
        anchor=verified_at(event),
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome=event.pass_fail_outcome or ("not published" if record is unpublished else "commit refused"),
        captured_at=time_of(record),
        output=failed.output if failed else record.told.output or "\n".join(record.told.reasons),
        note=note,
        said=_said_by_who_gave_up(stream, event.sequence),
    )


def _note_since(stream: Stream, sequence: int) -> str:
    """The note of the user who last let the work continue after the event with that *sequence*."""
    later = (record for record in reversed(stream.records) if record.event.sequence > sequence)
    cleared = next((record for record in later if record.event.event == "checkup_unblocked"), None)
    return cleared.told.note if cleared else ""


def claims_failure(completed: Record[IssueEvent]) -> bool:
    """Whether the agent of a completed attempt itself says that it did not do what was asked."""
    return completed.told.agent.success is False


def _said_by_who_gave_up(stream: Stream, before: int) -> str:
    """The last message of the agent in the attempt before the event with the sequence *before*, if it gave up."""
    earlier = (record for record in reversed(stream.records) if record.event.sequence < before)
    completed = next((record for record in earlier if record.event.event == "run_completed"), None)
    return completed.told.summary if completed and claims_failure(completed) else ""


def publication_failure_of(stream: Stream) -> FailureView | None:
    """Why the newest verification or acceptance could not be published; None if publication is not what is left.

    The next attempt is not given this: its code is fine (contract, outcome E).
    """
    record = stream.records[-1] if stream.records else None
    if record is None or record.event.event not in _NOT_PUBLISHED:
        return None
    event = record.event
    verified = last_of(stream, "verify_publication_failed", "verify_pending_acceptance")
    return FailureView(
        failed_check=_NOT_PUBLISHED[event.event],
        anchor=verified_at(verified.event) if verified else None,
        attempt=event.attempt_count,
        attempts=1 + event.max_retry_count,
        outcome="publication_failed",
        captured_at=time_of(record),
        output=record.told.reason,
    )


def _what_failed(record: Record[IssueEvent], check: str) -> str:
    if record.event.event == "run_commit_failed":
        return "git commit"
    if getattr(record.event, "blocking_check", None) == SECRET_IN_COMMIT:
        return SECRET_IN_COMMIT
    otherwise = "sent back by a person" if record.told.note else "verification"
    return check or record.told.failed_check or otherwise


# --- Permissions that an agent was denied


class DeniedView(NamedTuple):
    """What an agent was denied, as text, and the entries of `agent.permissions` that would allow it."""

    words: tuple[str, ...]
    rules: tuple[str, ...]


def denied_of(stream: Stream) -> DeniedView | None:
    """What was denied in the newest attempt that ended; None if nothing was."""
    denied = _denied_words(stream)
    return DeniedView(denied, tuple(map(entry_of, rules_for_denied(stream)))) if denied else None


def rules_for_denied(stream: Stream) -> tuple[PermissionRule, ...]:
    """The rules that would have allowed it, and no others."""
    return tuple(dict.fromkeys(rule for words in _denied_words(stream) if (rule := missing_rule(words))))


def rules_in_words(rules: Sequence[PermissionRule]) -> tuple[str, ...]:
    """Each rule in short: the kind of tool and what it matches."""
    return tuple(f"{rule.tool} {rule.match}" for rule in rules)


def denied_lines(stream: Stream) -> tuple[str, ...]:
    """What was denied, one line each."""
    return tuple(f"the agent asked for permission and was denied: {words}" for words in _denied_words(stream))


def _denied_words(stream: Stream) -> tuple[str, ...]:
    ended = last_of(stream, "run_completed", "run_interrupted")
    return ended.told.agent.denied if ended else ()


# --- Attempts that failed in the same way, side by side


FILES_SHOWN: Final = 10


class AttemptView(NamedTuple):
    """One of several attempts that failed in the same way. `changed` lists the files changed since it began."""

    number: int
    commit: str
    changed: tuple[str, ...]
    said: str
    failed_check: str
    excerpt: str


class _Attempt(NamedTuple):
    """A failed verification, and the commits before and after its attempt; None after one that changed nothing."""

    failed: Record[IssueEvent]
    began_with: str | None
    left: str | None
    said: str


def repeated_failures(app: App, stream: Stream, state: TaskState) -> tuple[AttemptView, ...]:
    """The last attempts, oldest first, if at least two in a row failed in the same way; else empty."""
    if not state.repeated_failure:
        return ()
    return tuple(_view(app, attempt) for attempt in _attempts(stream)[-state.same_failures :])


def _attempts(stream: Stream) -> list[_Attempt]:
    found: list[_Attempt] = []
    base = began_with = left = None
    said = ""
    for record in stream.records:
        match record.event.event:
            case "run_started":
                # An attempt on the same base as the one before starts from that one's commit (R5).
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


def _view(app: App, attempt: _Attempt) -> AttemptView:
    told, failed = attempt.failed.told, failed_check(app, attempt.failed.event)
    return AttemptView(
        number=attempt.failed.event.attempt_count,
        commit=attempt.left or "",
        changed=_changed(app, attempt),
        said=attempt.said,
        failed_check=failed.check.shown if failed else told.failed_check or "verification",
        excerpt=excerpt(failed) if failed else told.output,
    )


def _changed(app: App, attempt: _Attempt) -> tuple[str, ...]:
    if not (attempt.began_with and attempt.left):
        return ()
    try:
        counts = app.repository.line_counts(attempt.began_with, attempt.left)
    except GitFailed:  # our refs were removed: the rest of the form still helps
        return ("the commits are not here any more",)
    rest = len(counts) - FILES_SHOWN
    return (*map(_words, counts[:FILES_SHOWN]), *((f"and {rest} more",) if rest > 0 else ()))


def _words(count: LineCount) -> str:
    return count.path if count.added is None else f"{count.path} +{count.added} -{count.removed}"


# --- Addresses of Prefect's pages, without importing Prefect


def page_of_run(ui: str | None, run: object) -> str:
    """The page of the flow run with that id, in the version of the UI that shows the Resume button."""
    return f"{ui}/runs/flow-run/{run}"


NEEDS_YOU: Final = "needs-you"
"""The key of the page with every open question of a server."""
