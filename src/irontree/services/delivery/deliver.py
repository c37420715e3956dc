"""Bring the forge in line with the log: labels, comments, replies, closing (R9). Never stops the work.

The ledger is written after the effects. A crash therefore repeats them, which is safe: an effect that is already there
is left alone. What failed is tried again next time.

A loop's own questions (its budget, a gap) are posted on the issue where it last worked: a comment there can answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from irontree.app import App
from irontree.domain.checks import left_to_people
from irontree.domain.comments import (
    CLOSE_COMMANDS,
    MAX_TOLD,
    REPLYING,
    Opportunity,
    ReplyDecision,
    dispatch_reply,
    is_actionable,
    plain,
    replied_in_window,
    reply_problems,
    slim,
)
from irontree.domain.events import CATEGORY, CheckupUnblocked, ExternalCloseDetected, IssueEvent, Record
from irontree.domain.external import MERGE_CHECKS, is_given_up
from irontree.domain.halt import halt_title
from irontree.domain.ids import slugify
from irontree.domain.instructions import ASSIGNED, filled, instructions_for
from irontree.domain.loop import LoopEntity
from irontree.domain.machine import evolve
from irontree.domain.state import ADOPTED, COLORS, DESCRIPTIONS, MANAGED, TaskState, labels_for
from irontree.domain.text import few, one_line
from irontree.errors import FORGE_FAILED, Busy, IllegalTransition, NotEligible
from irontree.ports import CommitCheck, EffectLedger, Label, Stream
from irontree.services.delivery.comments import (
    CommentView,
    answers_in,
    comment_for,
    comment_marker,
    comment_text,
    loop_marker,
    place_of,
    post_if_new,
    post_once,
    question_in,
)
from irontree.services.delivery.issue_text import keep_current
from irontree.services.delivery.requests import of_ci, propose_where_due
from irontree.services.loops.loop import Loop, read_loops
from irontree.services.questions.questions import Question, question_of
from irontree.services.record import World, close_where_due, closing_policy, is_closed_by_us, read_world
from irontree.services.views.history import document_of, last_of, newest_document
from irontree.services.views.report import changed_files, criteria_of, done_by

Labels: TypeAlias = tuple[str, ...]
_FOLLOW: Final = MANAGED | {ADOPTED}
LABELS: Final = {name: Label(name, color, DESCRIPTIONS[name]) for name, color in COLORS.items()}


def deliver(app: App, world: World, issue_number: int, *, present: Labels | None = None) -> EffectLedger:
    """Deliver what is due for this issue; returns the ledger. The caller holds the driver lock.

    Only the plans of *world* are used: what happened to the issue is read from its log. *present* are the labels that
    the issue has now, if the caller has just seen them.
    """
    stream, ledger = app.log.read(issue_number), app.deliveries.load(issue_number)
    state = stream.replayed().state
    if state is None or (ledger.sequence >= stream.last_sequence and not ledger.failures):
        return ledger
    if _is_gone_for_good(app, stream, issue_number):
        now = replace(ledger, sequence=stream.last_sequence, failures=(), posting="")
        app.deliveries.save(issue_number, now)
        return now
    reached, failure = _post_comments(app, world, stream, ledger)
    ledger = reply_where_due(app, world, state, ledger, reached)
    ledger, unproposed = propose_where_due(app, world, state, ledger)
    unsure = ledger.sequence == 0 or bool(ledger.failures)
    opened_at = _opened_again_at(stream)
    not_opened = _attempt(lambda: _reopen(app, state)) if opened_at > ledger.sequence else None
    if not_opened:
        reached = min(reached, opened_at - 1)
    shown = [ledger.shown]
    unlabelled = _attempt(lambda: _set_labels(app, state, ensure=unsure, present=present), "stage_label_sync_failed")
    outcomes = (
        failure,
        not_opened,
        unproposed,
        unlabelled,
        None if unlabelled else _attempt(lambda: shown.append(_keep_current(app, state, ledger))),
        _attempt(lambda: close_where_due(app, world, state)),
    )
    failures = tuple(message for message in outcomes if message)
    closed = ledger.closed or (not failures and is_closed_by_us(app, world, state))
    now = replace(ledger, sequence=reached, failures=failures, closed=closed, shown=shown[-1], posting="")
    app.deliveries.save(issue_number, now)
    return now


def _is_gone_for_good(app: App, stream: Stream, issue_number: int) -> bool:
    """Whether there is nothing to deliver to: the issue is gone, and a user let its work continue without it."""
    if not is_given_up(stream.records):
        return False
    with suppress(*FORGE_FAILED):  # unknown at the moment
        return app.forge().read_issue(issue_number) is None
    return False


def _post_comments(app: App, world: World, stream: Stream, ledger: EffectLedger) -> tuple[int, str | None]:
    """Post the comments due after the ledger, in order; returns how far it got, and what stopped it."""
    for state, record in due_comments(stream):
        if record.event.sequence <= ledger.sequence:
            continue
        post = partial(_post, app, world, state, record, ledger)
        failure = _attempt(post, "comment_post_failed")
        if failure:
            return record.event.sequence - 1, failure
    return stream.last_sequence, None


def due_comments(stream: Stream) -> Iterator[tuple[TaskState, Record[IssueEvent]]]:
    """The events that call for a comment, in order, each with the state after it."""
    state: TaskState | None = None
    for record in stream.records:
        before = state
        try:
            state = evolve(before, record)
        except IllegalTransition:  # it does not count; a gap event after it does
            continue
        if _calls_for_comment(before, record.event):
            yield state, record


def _calls_for_comment(before: TaskState | None, event: IssueEvent) -> bool:
    """Audible events, but only the first of several in a row that cost no attempt (R12)."""
    repeated = before is not None and before.free_event == event.event
    return CATEGORY[event.event] == "audible" and not repeated


def _post(app: App, world: World, state: TaskState, record: Record[IssueEvent], ledger: EffectLedger) -> None:
    number, marker = state.issue_number, comment_marker(state.issue_number, record, state.renewed_from)
    post_if_new(app, number, comment_for(app, world, state, record, marker), marker, ledger)


def _set_labels(app: App, state: TaskState, *, ensure: bool, present: Labels | None) -> None:
    """Set the labels for the state; with *ensure*, first create those that may not exist yet (contract, labels).

    Nothing is sent where those that are *present* are right already.
    """
    wanted = labels_for(state)
    if present is not None and frozenset(present) & _FOLLOW == wanted:
        return
    if ensure:
        app.forge().ensure_labels(LABELS.values())
    app.forge().set_labels(state.issue_number, add=sorted(wanted), remove=sorted(MANAGED - wanted))


def _keep_current(app: App, state: TaskState, ledger: EffectLedger) -> str:
    """Bring the marked parts of the text up to date, and with a task that is done the list of its parent.

    What was just published says its first state already. Returns the digest of what is shown.
    """
    is_new = state.sequence == 1 and not ledger.shown and not ledger.failures
    if state.adopted or is_new:
        return ledger.shown
    world = read_world(app)
    node = world.nodes.get(state.task_key)
    parent = world.states.get(node.parent or "") if node and state.done else None
    if parent:
        refresh(app, world, parent)
    return keep_current(app, world, state, ledger.shown)


def refresh(app: App, world: World, state: TaskState) -> None:
    """Bring the marked parts of an issue's text up to date; a failure is kept for the next delivery (R9)."""
    ledger = app.deliveries.load(state.issue_number)
    try:
        now = replace(ledger, shown=keep_current(app, world, state, ledger.shown))
    except FORGE_FAILED as error:
        now = replace(ledger, failures=tuple(dict.fromkeys((*ledger.failures, error.message))))
    if now != ledger:
        app.deliveries.save(state.issue_number, now)


def _opened_again_at(stream: Stream) -> int:
    """The sequence at which a user resumed work after the newest close by others, including a merge; 0 if none did.

    The ledger stays before it until the issue is open: a close found after that is a new decision by a user.
    """
    events = [record.event for record in stream.records]
    closed = max((event.sequence for event in events if _says_closed(event)), default=None)
    if closed is None:
        return 0
    went_on = (event.sequence for event in events if isinstance(event, CheckupUnblocked) and event.sequence > closed)
    return next(went_on, 0)


def _says_closed(event: IssueEvent) -> bool:
    return isinstance(event, ExternalCloseDetected) or getattr(event, "blocking_check", None) in MERGE_CHECKS


def _reopen(app: App, state: TaskState) -> None:
    """Reopen an issue that was closed outside, unless it is done by now."""
    if not state.done:
        app.forge().edit_issue(state.issue_number, state="open")


def _attempt(effect: Callable[[], None], failure: str = "") -> str | None:
    """Run *effect*; returns what prevented it, prefixed with the contract's name for the *failure*, if it has one."""
    try:
        effect()
    except FORGE_FAILED as error:
        return f"{failure}: {error.message}" if failure else error.message
    return None


# --- Replies: prose for the author of an issue when its work converges (protocol, Reply Dispatch; R10)
#
# At most one per attempt, tried once: if it cannot be posted, that is a warning, and the log holds null. A user's note
# helps to decide whether there is a reply, and is never part of it.


def reply_where_due(app: App, world: World, state: TaskState, ledger: EffectLedger, reached: int) -> EffectLedger:
    """Decide about a reply to each event after the ledger, up to *reached*, and post it; returns the new ledger."""
    after = max(ledger.replied, ledger.sequence)
    for record in app.log.read(state.issue_number).records:
        if after < record.event.sequence <= reached and record.event.event in REPLYING:
            warning = _reply(app, world, state, record, ledger)
            ledger = replace(ledger, warnings=(*ledger.warnings, warning)) if warning else ledger
    return replace(ledger, replied=max(after, reached))


def _reply(app: App, world: World, state: TaskState, record: Record[IssueEvent], ledger: EffectLedger) -> str | None:
    """Reply to one event if the decision is to reply; returns what went wrong."""
    if record.event.event == "verify_pending_acceptance" and state.sequence > record.event.sequence:
        return None  # it has been answered already
    try:
        decision = reply_decision(app, state, record)
        if decision.yes:
            _post_reply(app, world, state, record, ledger)
    except (*FORGE_FAILED, NotEligible) as error:
        return f"reply_post_failed: {error.message}"
    return None


def reply_decision(app: App, state: TaskState, record: Record[IssueEvent]) -> ReplyDecision:
    """Whether to reply to this event, and why. Raises ConfigRefused if the configuration cannot be read."""
    events = [record.event for record in app.log.read(state.issue_number).records]
    opportunity = Opportunity(
        note=_note(app, state, record),
        promoted=document_of(record.event) is not None,
        written_by_a_person=state.adopted,
        reports=_report_form(read_world(app), state) != "",
        replied=replied_in_window(events, record.event.sequence),
        unanswered=record.event.event == "checkup_done"
        and (state.adopted or any(CATEGORY[event.event] == "audible" for event in events)),
    )
    return dispatch_reply(app.preferences().reply, opportunity)


def _note(app: App, state: TaskState, record: Record[IssueEvent]) -> str:
    """The verifier's note; at finalization, that of the user who accepted."""
    if record.event.event != "checkup_done":
        return record.told.verifier_note
    accepted = last_of(app.log.read(state.issue_number), "checkup_accept_recorded")
    return accepted.told.note if accepted and record.event.completion_basis == "accepted" else ""


def _post_reply(app: App, world: World, state: TaskState, record: Record[IssueEvent], ledger: EffectLedger) -> None:
    number, marker = state.issue_number, comment_marker(state.issue_number, record, f"{state.renewed_from}/reply")
    text = _reply_text(app, world, state, record, marker)
    if problems := reply_problems(text):
        raise NotEligible(f"the text would hold {', '.join(problems)}")
    app.log.record_reply(number, record.event.sequence, post_if_new(app, number, text, marker, ledger))


def _reply_text(app: App, world: World, state: TaskState, record: Record[IssueEvent], marker: str) -> str:
    node, plan, event = world.nodes.get(state.task_key), world.plans.get(state.task_key), record.event
    forge = app.forge()
    command = CLOSE_COMMANDS.get(forge.name)
    covered = criteria_of(app, state, plan, node) if node and plan else ()
    document = _document(app, state, event)
    return app.renderer.render(
        "comments/reply.md",
        report=_action_report(app, world, state),
        title=node.title if node else state.task_key,
        marker=marker,
        asked_for=state.adopted,
        basis=event.completion_basis,
        done_by=done_by(app, world, state) if state.done else "",
        to_check=tuple(human.criterion.text for human in left_to_people(covered)),
        remark=is_actionable(_note(app, state, record)),
        commit_url=forge.links.commit(event.code_ref) if event.code_publication_state == "published" else None,
        docs_url=forge.links.file(plan.policy.publish.target_branch, document) if plan and document else None,
        document=document,
        # The close instruction belongs to finalization alone (contract, Close On Done).
        close_it=event.event == "checkup_done" and closing_policy(app, node) == "manual",
        close_command=command.format(number=state.issue_number) if command else None,
    )


def _report_form(world: World, state: TaskState) -> str:
    """The form of the report on an issue of this type; empty without one, and for what nobody works on."""
    plan, node = world.plans.get(state.task_key), world.nodes.get(state.task_key)
    if plan is None or node is None or node.executability == "container":
        return ""
    told = instructions_for(plan.policy.instructions, ASSIGNED, node.type)
    return told.report if told else ""


def _action_report(app: App, world: World, state: TaskState) -> str:
    """The report in its form: what the agent said of its last attempt, and what this program knows. Else empty."""
    form = _report_form(world, state)
    if not form:
        return ""
    completed = last_of(app.log.read(state.issue_number), "run_completed")
    said = completed.told.report if completed else {}
    of_agent = {name: plain(one_line(str(text))) for name, text in said.items()}
    # The form first: what makes an agent's words harmless is what `slim` takes out.
    return filled(slim(form), of_agent | _known_of_work(app, world, state))[:MAX_TOLD]


def _known_of_work(app: App, world: World, state: TaskState) -> dict[str, str]:
    node = world.node(state)
    request = app.forge().read_pull_request(state.request) if state.request else None
    checks = of_ci(app.forge().commit_checks(request.head_sha)) if request else ()
    return {
        "issue_number": str(state.issue_number),
        "title": plain(one_line(node.title)),
        "brief": slugify(node.title),
        "branch": request.head_branch if request else world.plan(state).policy.publish.target_branch,
        "pr_number": f"#{request.number}" if request else "",
        "files": plain(few(changed_files(app, state))) or "none",
        "ci_status": _said_by_ci(checks) if request else "",
    }


def _said_by_ci(checks: Sequence[CommitCheck]) -> str:
    return plain(one_line(", ".join(f"{check.name}: {check.state}" for check in checks))) or "nothing yet"


def _document(app: App, state: TaskState, event: IssueEvent) -> str | None:
    """The document with the notes of the verification on which this event rests."""
    if event.completion_basis != "verified":
        return None
    return newest_document(app.log.read(state.issue_number))


# --- Comments on a loop's halt


_FAILED: Final = "comment_post_failed: loop halted: "


def tell_halts(app: App, world: World) -> None:
    """Comment on the issue where a loop has halted, once per event, unless that event posted a comment itself.

    The caller holds the driver lock. A comment that cannot be posted is noted in the issue's ledger, and tried again by
    the next driver.
    """
    for loop in read_loops(app)[0]:
        if loop.entity.status == "halted":
            _tell_if_due(app, world, loop.entity)
            _tell_own_if_due(app, world, loop)


def tell_halts_if_free(app: App, who: str, *, wait_seconds: float) -> None:
    """Run `tell_halts` if the driver lock is free in time; if not, the next driver does."""
    with suppress(Busy), app.driver.hold(who, wait_seconds=wait_seconds):
        tell_halts(app, read_world(app))


def _tell_if_due(app: App, world: World, entity: LoopEntity) -> None:
    state = world.states.get(entity.halt_at_task_key or "")
    if state is None or world.halt_of(state) is None:  # answered, but the loop has not resumed yet
        return
    stream, ledger = app.log.read(state.issue_number), app.deliveries.load(state.issue_number)
    marker = comment_marker(state.issue_number, stream.records[-1], f"{state.renewed_from}/{entity.loop_id}")
    told_itself = stream.last_sequence in {record.event.sequence for _, record in due_comments(stream)}
    if marker != ledger.halt_told and not told_itself:
        reason = state.problem or halt_title(entity.halt_reason or "")
        _tell(app, world, state, marker, reason, question_in(app, state))


def _tell_own_if_due(app: App, world: World, loop: Loop) -> None:
    question, state = question_of(app, loop), place_of(loop, world)
    if question is None or state is None:
        return
    marker = loop_marker(state.issue_number, loop.id, question.sequence)
    if marker != app.deliveries.load(state.issue_number).halt_told:
        _tell(app, world, state, marker, question.detail or question.rule.title, question)


def _tell(app: App, world: World, state: TaskState, marker: str, reason: str, question: Question | None) -> None:
    answers = answers_in(app, world, question) if question else {}
    view = CommentView(state.issue_number, marker, reason=reason, **answers)
    ledger = app.deliveries.load(state.issue_number)
    others = tuple(failure for failure in ledger.failures if not failure.startswith(_FAILED))
    try:
        post_once(app, state.issue_number, comment_text(app, "loop_halted", view), marker)
    except FORGE_FAILED as error:
        now = replace(ledger, failures=(*others, f"{_FAILED}{error.message}"))
    else:
        now = replace(ledger, failures=others, halt_told=marker)
    app.deliveries.save(state.issue_number, now)
