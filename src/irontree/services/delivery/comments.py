"""Status comments: what an audible event or an open question says to the people who follow the issue (R9, R10)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from irontree.app import App
from irontree.domain.comments import marked_problems, status_problems
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import choices, halt_of
from irontree.domain.state import TaskState
from irontree.domain.timestamps import moment_in_utc
from irontree.ports import Comment
from irontree.services.loops.loop import Loop, loop_of, open_loops, read_loops, still_open
from irontree.services.proposals.permissions import offers_permission
from irontree.services.questions.questions import Question, gate_at, given_up, question_about, question_of
from irontree.services.record.world import World, read_world
from irontree.services.views.failures import rules_for_denied, rules_in_words
from irontree.services.views.history import results_at
from irontree.services.views.values import CommentView, comment_template

# --- Status comments: what an audible event says to the people who follow the issue (protocol, Comment Classes)


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
    if halt_of(state) is None or not offers_permission(app, read_world(app), state):
        return ()
    return rules_in_words(rules_for_denied(app.log.read(state.issue_number)))


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


# --- Our comments as they stand on the forge, held against what one may hold (Slim Comment Invariant, ruling R10)


@dataclass(frozen=True, slots=True)
class CommentFinding:
    """A comment of ours that holds what it must not; `comment` is its address, `problems` are words for people."""

    issue_number: int
    comment: str
    problems: tuple[str, ...]


def lint_comments(app: App) -> tuple[CommentFinding, ...]:
    """Every comment of our own account that this program posted and that breaks the policy. Reads only.

    What a person wrote with the same account carries no marker of ours and is nobody's business here. Raises
    RemoteFailed if the forge cannot be read.
    """
    return tuple(finding for number in app.log.streams() for finding in _findings(app, number))


def _findings(app: App, issue_number: int) -> Iterator[CommentFinding]:
    if app.forge().read_issue(issue_number) is None:
        return
    for comment in app.forge().comments(issue_number):
        problems = marked_problems(comment.body) if comment.ours else ()
        if problems:
            yield CommentFinding(issue_number, comment.url or comment.id, problems)


# --- The open questions of a repository, each with the issue under which a comment answers it (rulings R9, R10)


LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """An open question, and what tells comments behind it from those before: our comment that asks, or the time."""

    question: Question
    issue_number: int
    markers: tuple[str, ...]
    """Those that our comment that asks may have."""
    at: datetime
    """When it was asked, by our clock."""

    def is_asked_by(self, comment: Comment) -> bool:
        """Whether it is our comment that asks."""
        return comment.ours and any(marker in comment.body for marker in self.markers)

    def came_before(self, comment: Comment, among: tuple[Comment, ...]) -> bool:
        """Whether it was posted before the question was asked; the forge's order counts where it shows ours."""
        asking = [at for at, known in enumerate(among) if self.is_asked_by(known)]
        if asking:
            return among.index(comment) < asking[0]
        return _moment(comment.created_at) <= self.at


def asked_in_comments(app: App) -> tuple[Asked, ...]:
    """What issues and loops ask now; not of tasks that were skipped, or whose loop was stopped. Reads only."""
    world, every = read_world(app), read_loops(app)[0]
    loops, nobodys = still_open(every), given_up(every, world)
    states = (state for key, state in world.states.items() if key not in nobodys)
    of_issues = (_of_issue(app, world, loops, state) for state in states)
    return (*(asked for asked in of_issues if asked), *_of_loops(app, world, loops))


def asked_at(app: App, issue_number: int) -> Asked | None:
    """What is asked under that issue now."""
    return next((asked for asked in asked_in_comments(app) if asked.issue_number == issue_number), None)


def place_of(loop: Loop, world: World) -> TaskState | None:
    """Under which issue a question of the loop itself stands: that of its last transition; None before the first."""
    last = loop.entity.transitions[-1].task_key if loop.entity.transitions else ""
    return world.states.get(last)


def _of_issue(app: App, world: World, loops: tuple[Loop, ...], state: TaskState) -> Asked | None:
    rule = world.halt_of(state)
    if rule is None:
        return None
    loop_id, record = loop_of(loops, state.task_key), app.log.read(state.issue_number).records[-1]
    return Asked(
        question_about(state, rule, loop_id), state.issue_number, issue_markers(state, record, loop_id), _time(record)
    )


def issue_markers(state: TaskState, record: Record[IssueEvent], loop_id: str | None) -> tuple[str, ...]:
    """The marker of the comment that *record* posts, and that of the halt of its loop (ruling R10)."""
    suffixes = (state.renewed_from, f"{state.renewed_from}/{loop_id}")
    return tuple(comment_marker(state.issue_number, record, suffix) for suffix in suffixes)


def _of_loops(app: App, world: World, loops: tuple[Loop, ...]) -> Iterator[Asked]:
    for loop in loops:
        question, state = question_of(app, loop), place_of(loop, world)
        if question and state and not world.halt_of(state):
            records = app.loops.read(loop.id).records
            marker = loop_marker(state.issue_number, loop.id, question.sequence)
            yield Asked(question, state.issue_number, (marker,), _moment(records[-1].meta.get("time")))


def _time(record: Record[IssueEvent]) -> datetime:
    return _moment(record.meta.get("time"))


def _moment(text: object) -> datetime:
    """ISO 8601, UTC where no zone is named; what was written by hand and is no time counts as long ago."""
    return moment_in_utc(text) or LONG_AGO
