"""Status comments: what an audible event says to the people who follow the issue (protocol, Comment Classes)."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

from irontree.app import App
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import choices, halt_of
from irontree.domain.lint import status_problems
from irontree.domain.state import TaskState
from irontree.services.gates import gate_at
from irontree.services.loops.loop import loop_of, open_loops
from irontree.services.planning.leave import offers_leave
from irontree.services.projections.denied import rules_for_denied, words_for_rules
from irontree.services.projections.history import results_at
from irontree.services.projections.views import CommentView, comment_template
from irontree.services.questions import question_about
from irontree.services.world import read_world


def comment_marker(issue_number: int, record: Record[IssueEvent], suffix: str = "") -> str:
    """A hidden, opaque line that recognises our comment of this event: neither hex nor an event name (R9).

    *suffix* tells comments apart that follow from events alike: of a stream that begins again, or a reply.
    """
    event = record.event
    return _marker(issue_number, f"{event.task_key}/{event.approved_revision}/{event.sequence}{suffix}")


def loop_marker(issue_number: int, loop_id: str, sequence: int) -> str:
    """The same for the question that a loop asks itself, by the sequence of its event."""
    return _marker(issue_number, f"{loop_id}/{sequence}")


def answer_marker(issue_number: int, comment_id: str) -> str:
    """The same for what we say to an answer in a comment that was not taken."""
    return _marker(issue_number, f"answer/{comment_id}")


def _marker(issue_number: int, name: str) -> str:
    token = base64.b32encode(hashlib.sha256(name.encode()).digest()[:10]).decode().lower()
    return f"<!-- irontree:{issue_number}:{token} -->"


def post_once(app: App, issue_number: int, text: str, marker: str) -> str:
    """Post *text*, which ends with *marker*, unless our own account has; the comment's address. Raises RemoteFailed."""
    forge = app.forge()
    there = next((known for known in forge.comments(issue_number) if known.ours and marker in known.body), None)
    return (there or forge.post_comment(issue_number, text)).url


def comment_for(app: App, state: TaskState, record: Record[IssueEvent], marker: str) -> str:
    """The rendered comment of *record*; *state* is the state after it."""
    view = CommentView(
        number=state.issue_number,
        marker=marker,
        reason=_reason(record) or _what_failed(app, record),
        action=str(record.meta.get("remedy", "")),
        attempt=state.attempt_count,
        attempts=state.total_attempts,
        request=str(record.meta.get("request_url", "")),
        answers=answers_to(app, state),
        gate=_gate(app, state),
        allows=_allows(app, state),
    )
    return comment_text(app, record.event.event, view)


def answers_to(app: App, state: TaskState) -> tuple[str, ...]:
    """How a comment answers what the issue asks in this state; empty where it asks nothing."""
    rule = halt_of(state)
    if rule is None:
        return ()
    in_loop = loop_of(open_loops(app), state.task_key) is not None
    return tuple(choice.usage(state.task_key) for choice in choices(rule, in_loop=in_loop))


def _gate(app: App, state: TaskState) -> str:
    rule = halt_of(state)
    gate = gate_at(read_world(app), question_about(state, rule)) if rule else None
    return gate.words if gate else ""


def _allows(app: App, state: TaskState) -> tuple[str, ...]:
    """What the answer `allow` would approve, for whoever gives it in a comment; empty where it makes no difference."""
    if halt_of(state) is None or not offers_leave(app, read_world(app), state):
        return ()
    return words_for_rules(rules_for_denied(app.log.read(state.issue_number)))


def comment_text(app: App, event: str, view: CommentView) -> str:
    """The rendered status comment of an audible event.

    Never one that the Slim Comment Invariant forbids (ruling R10): then the template's own words stand alone.
    """
    text = app.renderer.render(comment_template(event), comment=view)
    if not status_problems(text):
        return text
    return app.renderer.render(comment_template(event), comment=replace(view, reason="", action="", allows=()))


def _what_failed(app: App, record: Record[IssueEvent]) -> str:
    """The check that failed, for an outcome that says nothing else."""
    anchor = getattr(record.event, "verify_anchor_sha", None)
    report = results_at(app, record.event.issue_number, anchor)
    return report.failed.complaint if report and report.failed else ""


def _reason(record: Record[IssueEvent]) -> str:
    """One line: the reason given, the first of several, or what a person's decision was."""
    reasons = record.meta.get("reasons") or [record.meta.get("reason", "")]
    if record.meta.get("note") and not reasons[0]:
        return f"sent back by {record.meta.get('by', 'a person')}: {record.meta['note']}"
    return str(reasons[0])
