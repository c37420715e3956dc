"""Status comments: what an audible event or an open question tells the users who follow the issue (R9, R10)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from irontree.app import App
from irontree.domain.checks import complaint_of
from irontree.domain.comments import MAX_CHARACTERS, is_marked, marked_problems, shows_all, slim, status_problems
from irontree.domain.events import IssueEvent, Record, kebab
from irontree.domain.halt import Choice, block_title, halt_of
from irontree.domain.issues import Comment
from irontree.domain.plan import Plan, canonical_digest
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import harmless, without_secrets
from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.errors import ApprovalRefused, GitFailed, RemoteFailed
from irontree.ports import EffectLedger
from irontree.services.loops.loop import Loop, loop_of, open_loops, read_loops
from irontree.services.proposals.again import ALLOW, UNREADABLE, offers_permission, propose_again
from irontree.services.proposals.approval import approval_view
from irontree.services.proposals.proposal import Proposal
from irontree.services.questions.commands import answers_to
from irontree.services.questions.pages import skipped_too
from irontree.services.questions.questions import Question, gate_at, gated, open_questions, question_about
from irontree.services.record import World, read_world
from irontree.services.views.history import failed_check, rules_for_denied, rules_in_words
from irontree.services.views.report import Evidence, evidence_of


@dataclass(frozen=True, slots=True)
class CommentView:
    """A status comment. `marker` is the hidden line that identifies it; without `action` the template's own is used."""

    number: int
    marker: str
    title: str = ""
    """What is in the way, in the heading of a block."""
    reason: str = ""
    action: str = ""
    attempt: int = 0
    attempts: int = 0
    request: str = ""
    """The pull request whose merge accepts the work: its number and address."""
    sent_back: bool = False
    """Whether a person decided that it failed, and no check."""
    evidence: Evidence | None = None
    """What is decided on, where a person is asked to accept or to go on; the rest of it is below."""
    output: str = ""
    """The end of what the failed check printed."""
    commit_url: str | None = None
    """The page of the commit, if it is on the forge."""
    publish: str = ""
    """The branch that an acceptance publishes to; empty where merging a request accepts."""
    answers: tuple[tuple[str, str], ...] = ()
    """Each command with which a comment of one person answers, and what it does; empty if nothing is asked."""
    typed: tuple[str, ...] = ()
    """The commands that answer the same on a terminal; empty where merging a request does."""
    gated: tuple[str, ...] = ()
    """The usage of each command that has to pass the gate."""
    gate: str = ""
    """Who decides at the gate; empty if there is none, and then a command may answer too."""
    allows: tuple[str, ...] = ()
    """The rules that `/allow` would approve; empty if that is no answer."""
    allow_gate: str = ""
    """Who decides whether these are allowed; empty if no gate guards it."""


def comment_marker(issue_number: int, record: Record[IssueEvent], suffix: str = "") -> str:
    """A hidden, opaque line that identifies our comment on this event: neither hex nor an event name (R9).

    *suffix* distinguishes comments on otherwise equal events: of a renewed stream, or a reply.
    """
    event = record.event
    return _marker(issue_number, f"{event.task_key}/{event.approved_revision}/{event.sequence}{suffix}")


def loop_marker(issue_number: int, loop_id: str, sequence: int) -> str:
    """The marker of the comment with a loop's own question, by the sequence of its event."""
    return _marker(issue_number, f"{loop_id}/{sequence}")


def answer_marker(issue_number: int, comment_id: str) -> str:
    """The marker of our reply to an answer in a comment: it was refused, or its gate asks for more people."""
    return _marker(issue_number, f"answer/{comment_id}")


def parts_marker(issue_number: int, parts: str) -> str:
    """The marker of the comment that lists these *parts* of an issue."""
    return _marker(issue_number, f"parts/{parts}")


def proposal_marker(issue_number: int, proposal: str) -> str:
    """The marker of the comment that proposes to divide an issue in this way."""
    return _marker(issue_number, f"proposal/{proposal}")


def _marker(issue_number: int, name: str) -> str:
    token = base64.b32encode(hashlib.sha256(name.encode()).digest()[:10]).decode().lower()
    return f"<!-- irontree:{issue_number}:{token} -->"


def post_once(app: App, issue_number: int, text: str, marker: str) -> str:
    """Post *text*, which ends with *marker*, unless our account has; returns the comment's URL. Raises RemoteFailed."""
    there = find_posted(app.forge().comments(issue_number), marker)
    return (there or app.forge().post_comment(issue_number, text)).url


def find_posted(comments: Sequence[Comment], marker: str) -> Comment | None:
    """The comment that our account posted with *marker*; None if there is none."""
    return next((known for known in comments if known.ours and marker in known.body), None)


def post_if_new(app: App, issue_number: int, text: str, marker: str, found: EffectLedger) -> str:
    """As `post_once`, in one call: the comments are read only if this may have been tried before (R9).

    *found* is the ledger as this delivery found it. It may have been tried if that is new, if something failed, or if
    it holds the note of a delivery that was cut off; which of its comments are there, the note does not say.
    """
    ledger = app.deliveries.load(issue_number)
    if not ledger.posting:
        app.deliveries.save(issue_number, replace(ledger, posting=marker))
    if not found.sequence or found.failures or found.posting:
        return post_once(app, issue_number, text, marker)
    return app.forge().post_comment(issue_number, text).url


def comment_for(app: App, world: World, state: TaskState, record: Record[IssueEvent], marker: str) -> str:
    """The rendered comment of *record*; *state* is the state after it."""
    question, failed = question_in(app, state), failed_check(app, record.event)
    view = CommentView(
        number=state.issue_number,
        marker=marker,
        title=block_title(state.blocking_check),
        reason=_reason(record) or (complaint_of(failed) if failed else ""),
        action=record.told.remedy,
        attempt=state.attempt_count,
        attempts=state.total_attempts,
        sent_back=_is_sent_back(record),
        request=_request(state, record),
        allows=_allows(app, world, state) if question else (),
        **(answers_in(app, world, question) if question else {}),
    )
    if _DECIDED_ON.get(record.event.event) is state.phase:
        output = _end_of(failed.output if failed else record.told.output)
        view = replace(_with_evidence(app, world, state, view), output=output)
    return comment_text(app, record.event.event, view)


_DECIDED_ON: Final = {"verify_pending_acceptance": Phase.PENDING, "verify_failed_terminal": Phase.TERMINAL}
"""The events whose comments show what a person decides on, while that is asked."""
_OUTPUT_LINES: Final = 20
_OUTPUT_CHARACTERS: Final = 6000


def _end_of(output: str) -> str:
    """The last lines of what a check printed, each behind a mark: none begins a command, a fence or an event."""
    lines = [f"| {line}" for line in harmless(without_secrets(output)).rstrip().split("\n")] if output.strip() else []
    last = lines[-_OUTPUT_LINES:]
    while len(last) > 1 and sum(map(len, last)) > _OUTPUT_CHARACTERS:
        del last[0]
    return "\n".join(last)


def _with_evidence(app: App, world: World, state: TaskState, view: CommentView) -> CommentView:
    """The same with what is decided on (R14). A request shows its change itself, and its commit is on the forge."""
    try:
        evidence = evidence_of(app, state)
    except GitFailed:  # our refs were removed: whoever is asked sees the rest
        return view
    plan = world.plans.get(state.task_key)
    if state.is_proposed:
        return replace(view, evidence=evidence.without_diff, commit_url=app.forge().links.commit(evidence.anchor))
    publish = plan.policy.publish.target_branch if plan and state.phase is Phase.PENDING else ""
    return replace(view, evidence=evidence, publish=publish)


def answers_in(app: App, world: World, question: Question) -> dict[str, Any]:
    """What a comment offers as answers, as fields of its view: those of one person apart from those of a gate."""
    closed, own = gated(world, question), gate_at(world, question)
    allow = next((gate_at(world, question, each) for each in question.rule.choices if each.name == ALLOW), None)
    return {
        "answers": tuple(
            (question.usage(choice), _effect(app, world, question, choice))
            for choice in question.choices()
            if choice.in_comments and choice.name not in closed
        ),
        "typed": _typed(replace(question, gated=closed)),
        "gated": question.usages(lambda choice: choice.name in closed),
        "gate": own.decide if own else "",
        "allow_gate": allow.decide if allow else "",
    }


def _typed(question: Question) -> tuple[str, ...]:
    """The commands that answer the same on a terminal; of a loop none, for its id is nothing to read (R10).

    Nor of what needs a name, which an approval is shown with, or of what a merge decides.
    """
    offered = () if question.issue_number is None else answers_to(question)
    return tuple(
        command
        for choice, command in offered
        if choice.in_comments and not choice.loop_only and "revision" not in choice.needs
    )


def _effect(app: App, world: World, question: Question, choice: Choice) -> str:
    """What the choice does; of a skip, which other tasks it leaves out."""
    others = skipped_too(app, world, question) if choice.name == "skip" else ""
    return f"{choice.label} (also skips {others})" if others else choice.label


def question_in(app: App, state: TaskState) -> Question | None:
    """The question that the issue asks in this state; None if it asks nothing."""
    rule = halt_of(state)
    return question_about(state, rule, loop_of(open_loops(app), state.task_key)) if rule else None


def _allows(app: App, world: World, state: TaskState) -> tuple[str, ...]:
    """The rules that the answer `allow` would approve, for the comment; empty if it would not help."""
    if not offers_permission(app, world, state):
        return ()
    return rules_in_words(rules_for_denied(app.log.read(state.issue_number)))


def comment_text(app: App, event: str, view: CommentView) -> str:
    """The rendered status comment of an audible event.

    If the rules for comments forbid it (R10), it is rendered without the diff, else with the template's own text only.
    """
    short = replace(view, evidence=view.evidence.without_diff) if view.evidence else view
    bare = replace(view, reason="", action="", allows=(), evidence=None, output="")
    for each in (view, short):
        text = app.renderer.render(comment_template(event), comment=each)
        if not status_problems(text):
            return text
    return app.renderer.render(comment_template(event), comment=bare)


def comment_template(event: str) -> str:
    """The template of an audible event's comment."""
    return f"comments/{kebab(event)}.md"


def _request(state: TaskState, record: Record[IssueEvent]) -> str:
    """The pull request by its number and its address; in a comment a file is named from the repository on (R10)."""
    url = slim(record.told.request_url)
    return f"#{state.request} ({url})" if url else ""


def _is_sent_back(record: Record[IssueEvent]) -> bool:
    """Whether a person decided that it failed."""
    return bool(record.told.note) and not any(record.told.why)


def _reason(record: Record[IssueEvent]) -> str:
    """One line: the reasons, or a user's decision. What a request is for is said by the action."""
    told = record.told
    reasons = tuple(reason for reason in told.why if not (told.request_url and reason.endswith(told.request_url)))
    if _is_sent_back(record):
        return f"sent back by {told.by or 'a person'}: {told.note}"
    return "; ".join(filter(None, reasons))


# --- Asking for the approval of an adopted issue


WAIT_SECONDS: Final = 5.0
ASK_AGAIN: Final = timedelta(minutes=10)
"""Between two such comments on an issue whose author may not approve: every edit of theirs makes a new name."""
APPROVAL_ASKED: Final = "comments/approval-asked.md"


def ask_for_approval(app: App, question: Question, comments: Sequence[Comment]) -> None:
    """Post on an adopted issue what its approval would put into force, and what to write; once per name.

    If its author has no write access, that is at most once in `ASK_AGAIN`, whoever edited it.

    *comments* are those since the question. The issue is read each time; its name is worked out only if something
    changed. An issue that cannot be approved as it is gets none. Raises RemoteFailed, and Busy if the driver lock is
    not free in time.
    """
    plan = read_world(app).plans.get(question.task_key or "")
    if question.reason != "reapproval_required" or plan is None or plan.adoption is None:
        return
    issue = app.forge().read_issue(question.under)
    ledger = app.deliveries.load(question.under)
    if issue is None or (not issue.trusted and _asked_lately(app, ledger)):
        return
    said = [[one.id, one.body] for one in comments if not is_marked(one.body)]
    try:
        settings = [app.policy(plan.policy.publish).digest, app.preferences().loop_budget]
        seen = canonical_digest([question.key, issue.title, issue.body, issue.state, said, settings])
        if seen != ledger.approval_seen:
            _ask_once(app, plan, question.under, seen)
    except RemoteFailed:
        raise
    except UNREADABLE:  # listings say why
        return


def _asked_lately(app: App, ledger: EffectLedger) -> bool:
    at = moment_in_utc(ledger.approval_asked_at)
    return at is not None and abs(app.clock.now() - at) < ASK_AGAIN  # a clock may have been put back


def _ask_once(app: App, plan: Plan, number: int, seen: str) -> None:
    wanted = propose_again(app, plan)
    marker = _marker(number, f"approve/{wanted.name}")
    text = _asking(app, wanted, marker)
    if not shows_all(text):
        text = _asking(app, wanted, marker, whole=False)
    if len(text) > MAX_CHARACTERS:  # `irontree task` shows it
        return
    with app.driver.hold(f"issue-{number}, approval", wait_seconds=WAIT_SECONDS):
        post_once(app, number, text, marker)
        asked = replace(app.deliveries.load(number), approval_seen=seen, approval_asked_at=utc_text(app.clock.now()))
        app.deliveries.save(number, asked)


def require_shown(app: App, wanted: Proposal) -> None:
    """Raise ApprovalRefused if a comment cannot show, whole and as written, what approving that issue permits."""
    if not shows_all(_asking(app, wanted, "")):
        raise ApprovalRefused(
            "not all of what it approves can be shown in a comment, as it is written",
            remedy=f"`irontree task '{wanted.what}'` shows it, and asks",
        )


def _asking(app: App, wanted: Proposal, marker: str, *, whole: bool = True) -> str:
    view = approval_view(app, wanted, loop_mode=True)
    return app.renderer.render(APPROVAL_ASKED, approval=view, marker=marker, whole=whole)


# --- Checking our comments on the forge against the comment policy


@dataclass(frozen=True, slots=True)
class CommentFinding:
    """A comment of ours with content that it must not have; `comment` is its address, `problems` are for display."""

    issue_number: int
    comment: str
    problems: tuple[str, ...]


def lint_comments(app: App) -> tuple[CommentFinding, ...]:
    """Every comment that this program posted with our account and that breaks the policy. Only reads.

    Comments that users wrote with the same account have no marker of ours and are not checked. Raises RemoteFailed if
    the forge cannot be read.
    """
    return tuple(finding for number in app.log.streams() for finding in _findings(app, number))


def _findings(app: App, issue_number: int) -> Iterator[CommentFinding]:
    if app.forge().read_issue(issue_number) is None:
        return
    for comment in app.forge().comments(issue_number):
        problems = marked_problems(comment.body) if comment.ours else ()
        if problems:
            yield CommentFinding(issue_number, comment.url or comment.id, problems)


# --- Open questions, each with the issue on which a comment answers it


def asked_in_comments(app: App) -> tuple[Question, ...]:
    """The open questions of issues and loops, each with the issue for answers and the markers of our comment.

    Excludes tasks that were skipped or whose loop was stopped. Only reads.
    """
    world, loops = read_world(app), read_loops(app)[0]
    return tuple(filter(None, (_placed(app, world, loops, one) for one in open_questions(app, world, loops))))


def asked_at(app: App, issue_number: int) -> Question | None:
    """The question now open on that issue; None if there is none."""
    return next((question for question in asked_in_comments(app) if question.under == issue_number), None)


def place_of(loop: Loop, world: World) -> TaskState | None:
    """The issue for a loop's own questions: that of its last transition; None before the first."""
    last = loop.entity.transitions[-1].task_key if loop.entity.transitions else ""
    return world.states.get(last)


def _placed(app: App, world: World, loops: Sequence[Loop], question: Question) -> Question | None:
    """The question with its place; None for a loop without one, or whose issue asks a question itself."""
    if question.issue_number is not None:
        state, record = world.state(question.issue_number), app.log.read(question.issue_number).records[-1]
        markers = issue_markers(state, record, question.loop_id)
        return replace(question, under=state.issue_number, markers=markers, since=record.told.time or None)
    [loop] = (loop for loop in loops if loop.id == question.loop_id)
    place = place_of(loop, world)
    if place is None or world.halt_of(place):
        return None
    marker = loop_marker(place.issue_number, loop.id, question.sequence)
    since = app.loops.read(loop.id).records[-1].told.time or None
    return replace(question, under=place.issue_number, markers=(marker,), since=since)


def issue_markers(state: TaskState, record: Record[IssueEvent], loop_id: str | None) -> tuple[str, ...]:
    """The markers of the comment that *record* posts, and of the one on its loop's halt (R10)."""
    suffixes = (state.renewed_from, f"{state.renewed_from}/{loop_id}")
    return tuple(comment_marker(state.issue_number, record, suffix) for suffix in suffixes)
