"""Validates every answer against the log and records it, whatever its channel: form, command, comment, timer (R11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App, Origin
from irontree.domain import typed
from irontree.domain.budgets import EXAMPLES, Unit, amount_of
from irontree.domain.commands import Issues
from irontree.domain.decide import TIMER, time_left
from irontree.domain.halt import AGENT_ASKS, RULE, RULES, VALUES, Choice, Need, choice_called, halt_of
from irontree.domain.state import Phase, TaskState
from irontree.errors import (
    AnswerRefused,
    Busy,
    Cancelled,
    EnvironmentRefused,
    LogDamaged,
    NotEligible,
    Refused,
    RemoteFailed,
    RemoteUnavailable,
)
from irontree.services.answers.approve import approve_again
from irontree.services.delivery.comments import require_shown
from irontree.services.execution import checkup
from irontree.services.execution.checkup import Decider
from irontree.services.execution.merging import VERIFIED_AGAIN, settle_request
from irontree.services.execution.publication import OVERTAKEN
from irontree.services.execution.steps import (
    STALE_LEASE,
    follow_up,
    require_not_published,
    settle_leftovers,
    take_over_lease,
)
from irontree.services.loops import loop
from irontree.services.proposals.again import grant_permissions
from irontree.services.proposals.proposal import WAYS, ApprovalChoices, Proposal
from irontree.services.questions.questions import (
    COMMENT,
    Question,
    QuestionKind,
    question_about,
    question_of_loop,
    require_gate,
)
from irontree.services.record import World, read_world
from irontree.services.views.history import request_url_of, rules_in_words
from irontree.services.views.workflow_run import show_runs_of
from irontree.services.work.preflight import STALE_LOCK

NOTE_LIMIT: Final = 8000
"""Maximum length in characters: the note goes into an event, and an event has at most 64 KiB."""

NOT_TAKEN: Final = (AnswerRefused, Busy, RemoteUnavailable)
"""Errors that leave the question open: the answer does not fit, or can only be taken later. Nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a user decided. `question` is the key of the question they were shown; None means whichever is open."""

    choice: str
    by: str
    note: str = ""
    count: int | None = None
    revision: str | None = None
    amount: str | None = None
    """How much more agents may spend, with the unit: `5 USD`, `200000 tokens`, `2h`."""
    question: str | None = None
    voters: tuple[str, ...] = ()
    """Accounts that gave the same answer, verified by the forge; empty where the channel does not identify users."""


ANSWERING: Final = "answering"
"""The lock (`App.alive`) of whoever records an answer, or waits to: the flows take no further step before (R17)."""
LOOK_EVERY: Final = 0.05
"""Seconds."""


@contextmanager
def between_steps(app: App, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold the driver lock for an answer, after the step at work and before the next one; raises Busy."""
    with (
        app.alive(ANSWERING).hold(what, wait_seconds=wait_seconds),
        app.driver.hold(what, wait_seconds=wait_seconds),
    ):
        yield


def give_way(app: App) -> None:
    """Wait while an answer is being recorded, or until a stop is asked for: what comes next depends on it."""
    while app.alive(ANSWERING).holder() and not app.cancel.wait(LOOK_EVERY):
        pass


def answer_issue(app: App, issue_number: int, answer: Answer, loop_id: str | None = None) -> TaskState:
    """Record the answer to this issue's open question and back up the log; returns the issue's state afterwards.

    The caller holds the driver lock. Raises AnswerRefused if no question is open, if another one is, or if the choice
    or a value that it needs does not fit; Busy or RemoteUnavailable if it can only be taken later. Nothing is recorded.
    """
    with _as_answer():
        app.preferences()  # a bad configuration fails here, not after the answer is recorded
        world = read_world(app)
        state = world.state(issue_number)
        question = _open_question(state, loop_id)
        choice = validate(question, answer)
        _require_wanted(app, world, state)
        if choice.name != "accept":
            require_not_published(app, world, state)
        require_gate(app, question, choice, answer.voters, answer.revision)
        if not choice.loop_only:
            settle_leftovers(app)
        after = _take(app, question, choice, answer)
    if after:
        follow_up(app, after)
    app.repository.back_up()
    return after or state


def answer_loop(app: App, loop_id: str, answer: Answer) -> None:
    """Record the answer to the loop's own question, and the loop's resumption or end, and back up the log.

    Raises AnswerRefused, Busy and RemoteUnavailable as `answer_issue` does.
    """
    with _as_answer():
        question = question_of_loop(app, loop_id)
        if question is None:
            raise AnswerRefused(
                f"loop {loop_id} has no open question", remedy=f"`{typed.loop(loop_id)}` shows its state"
            )
        _take(app, question, validate(question, answer), answer)
    app.repository.back_up()


def _take(app: App, question: Question, choice: Choice, answer: Answer) -> TaskState | None:
    """Run the use case of this answer; returns the issue's new state if its own log changed."""
    named = replace(answer, choice=choice.name)  # forms submit the label, not the name
    return _USE_CASES[question.kind, question.reason, choice.name](app, question, named)


def validate(question: Question, answer: Answer) -> Choice:
    """The choice that *answer* makes, if it fits *question*. Raises AnswerRefused naming what would fit."""
    if answer.question and answer.question != question.key:
        raise AnswerRefused(
            f"this answer is for {answer.question}, but {question.key} is open now",
            remedy="look at the present question, then answer that one",
        )
    special = [choice.name for choice in question.rule.choices if choice.special]
    legal = question.choices(special)
    labelled = next((item for item in legal if answer.choice == item.label), None)
    choice = labelled or choice_called(answer.choice, legal)
    if choice is None:
        names = ", ".join(item.typed for item in legal if not item.special)
        raise AnswerRefused(f"“{answer.choice}” is no answer to “{question.rule.title}”", remedy=f"one of: {names}")
    _require_needs(choice, answer)
    if question.budget and "amount" in choice.needs:
        _require_unit(question.budget.unit, answer.amount or "")
    return choice


def _require_unit(unit: Unit, text: str) -> None:
    amount = amount_of(text)
    if amount is None or amount.unit != unit:
        raise AnswerRefused(
            f"“{text}” is not an amount in the unit of the exhausted budget",
            remedy=f"say how much more, such as extend:{EXAMPLES[unit]}",
        )


def _require_needs(choice: Choice, answer: Answer) -> None:
    count = answer.count if VALUES["count"].fullmatch(str(answer.count)) else None
    given = {"note": answer.note.strip(), "count": count, "amount": answer.amount, "revision": answer.revision}
    missing = [_NEEDED[need] for need in choice.needs if not given[need]]
    if missing:
        raise AnswerRefused(
            f"“{choice.typed}” needs {missing[0]}", remedy=f"answer again with {missing[0]}{_example(missing[0])}"
        )
    if len(answer.note) > NOTE_LIMIT:
        raise AnswerRefused(
            f"the note has {len(answer.note)} characters; the limit is {NOTE_LIMIT}", remedy="put long texts elsewhere"
        )
    if len(answer.by.strip()) == 0:
        raise AnswerRefused("the answer does not say who decided", remedy="give a name")


_NEEDED: Final[dict[Need, str]] = {
    "note": "a note",
    "count": "a count from 1 to 50",
    "amount": "an amount",
    "revision": "the name of what is approved",
}


def _example(needed: str) -> str:
    return ", with its unit: 5 USD, 200000 tokens or 2h" if needed == _NEEDED["amount"] else ""


@contextmanager
def _as_answer() -> Iterator[None]:
    """Turn any refusal inside the block into AnswerRefused, except errors that only time can cure."""
    try:
        yield
    except NOT_TAKEN:
        raise
    except (Refused, EnvironmentRefused, RemoteFailed, LogDamaged) as error:
        raise AnswerRefused(error.message, remedy=error.remedy) from error


def _open_question(state: TaskState, loop_id: str | None) -> Question:
    rule = halt_of(state)
    if rule is None:
        raise AnswerRefused(
            f"issue-{state.issue_number} has no open question: it is {state.phase}",
            remedy=f"`irontree show issue-{state.issue_number}` shows what happened",
        )
    return question_about(state, rule, loop_id)


def _require_wanted(app: App, world: World, state: TaskState) -> None:
    """Raise AnswerRefused if the task was skipped in a loop that is still open (R17)."""
    newest = loop.newest_over_each(loop.read_loops(app)[0]).get(state.task_key)
    if newest and newest.is_open and state.task_key in loop.left_out(newest, world):
        raise AnswerRefused(
            f"issue-{state.issue_number} was skipped in loop {newest.id}, and stays skipped while that loop is open",
            remedy=f"answer once it is over; `{typed.stop(newest.id)}` ends it",
        )


def _skip(app: App, question: Question, answer: Answer) -> None:
    """Skip the task in its loop; this is recorded in the loop's log, not the issue's (R17)."""
    loop.skip(app, question.loop_id or "", question.task_key or "", answer.by, answer.note)


def _stop(app: App, question: Question, answer: Answer) -> None:
    """Stop the loop; its issues keep their state."""
    loop.cancel(app, question.loop_id or "", answer.by, note=answer.note)
    show_runs_of(app, question.loop_id or "")


def _resume(app: App, question: Question, answer: Answer) -> None:
    loop.resume(app, question.loop_id or "", answer.by, answer.note)


def _extend(app: App, question: Question, answer: Answer) -> None:
    loop_id, amount = question.loop_id or "", amount_of(answer.amount or "")
    more = question.budget.extended(amount) if question.budget and amount else None
    loop.extend(app, loop_id, 0 if more else answer.count or 0, answer.by, answer.note, more)
    loop.resume(app, loop_id, answer.by)


def _decider(answer: Answer) -> Decider:
    return Decider(answer.by.strip(), answer.note.strip())


def _accept(app: App, question: Question, answer: Answer) -> TaskState:
    """Publish the work; if it is proposed in a pull request, record that request's merge instead (R15)."""
    world = read_world(app)
    state = world.state(question.number)
    if not state.is_proposed:
        return checkup.accept(app, question.number, _decider(answer))
    after = settle_request(app, world, state, _decider(answer))
    if after is None:
        url = request_url_of(app.log.read(question.number)) or f"request #{state.request}"
        raise AnswerRefused(f"{url} is not merged yet", remedy="merge it there: that accepts the work")
    return after


def _accept_red(app: App, question: Question, answer: Answer) -> TaskState:
    """Accept how the checks fail without any work, for all tasks: the work has to make them pass."""
    asked = app.log.read(question.number).records[-1].told
    return checkup.unblock(app, question.number, "resume", replace(_decider(answer), red_before=asked.red_before))


def _send_back(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.send_back(app, question.number, _decider(answer))


def _try_again(app: App, question: Question, answer: Answer) -> TaskState:
    """Make another attempt with the note: what it was asked about is never published, nor verified again."""
    return _another(app, read_world(app).state(question.number), _decider(answer))


def _another(app: App, state: TaskState, decider: Decider) -> TaskState:
    """Let one more attempt be made, beyond the approved number if that is used up, or if the last one only asked."""
    asked = state.blocking_check == AGENT_ASKS and state.at_rest.phase is Phase.COMMITTED
    more = asked or state.attempt_count > state.max_retry_count
    return checkup.unblock(app, state.issue_number, "retry", decider, extra_attempts=1 if more else 0)


def _retry(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.unblock(app, question.number, "retry", _decider(answer), extra_attempts=answer.count or 0)


def _verify_again(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.unblock(app, question.number, "verify", _decider(answer))


def _go_on(app: App, question: Question, answer: Answer) -> TaskState:
    """Record the confirmation, then remove the stale lock: after a crash in between, the question is asked again."""
    state = read_world(app).state(question.number)
    if state.problem:
        raise AnswerRefused(f"issue-{question.number}: {state.problem}", remedy=state.way_out)
    after = _unblocked(app, state, _decider(answer))
    if state.blocking_check == STALE_LOCK:
        app.run_lock.override()
    if state.blocking_check == STALE_LEASE:
        take_over_lease(app)
    return after


def _unblocked(app: App, state: TaskState, decider: Decider) -> TaskState:
    """Record how the issue resumes after its block.

    A failed proposal is verified and proposed again. Work that no longer fits the target is done again on top of it,
    and an agent that asked works again.
    """
    if state.blocking_check in VERIFIED_AGAIN and state.commit:
        return checkup.unblock(app, state.issue_number, "verify", decider)
    if state.blocking_check in OVERTAKEN or state.blocking_check == AGENT_ASKS:
        return _another(app, state, decider)
    return checkup.unblock(app, state.issue_number, "resume", decider)


def _allow(app: App, question: Question, answer: Answer) -> TaskState:
    """Approve permission rules for what the agent was denied, and grant another attempt.

    A crash in between leaves the question open; the rules are approved by then, so any answer that resumes works.
    """
    state = read_world(app).state(question.number)
    words = rules_in_words(grant_permissions(app, question.number))
    note = answer.note.strip() or f"what was denied is allowed now: {'; '.join(words)}"[:NOTE_LIMIT]
    decider = Decider(answer.by.strip(), note, allowed=words)
    if state.phase is Phase.PENDING:
        return checkup.send_back(app, question.number, decider)
    if state.phase is Phase.BLOCKED:
        return _unblocked(app, state, decider)
    return checkup.unblock(app, question.number, "retry", decider, extra_attempts=1)


def _approve(app: App, question: Question, answer: Answer) -> TaskState:
    def opens(wanted: Proposal) -> None:
        if app.origin.channel == COMMENT and not wanted.draft.whole:
            require_shown(app, wanted)
        if app.origin.channel == COMMENT and question.loop_id is None:
            _start_loop_of(app, question, wanted)

    chosen = WAYS.get(answer.choice, ApprovalChoices())
    return approve_again(app, question.number, answer.revision or "", answer.by.strip(), chosen, first=opens)


def _start_loop_of(app: App, question: Question, wanted: Proposal) -> None:
    """Start the loop of an adopted issue, as the comment that asked for its approval said (R17).

    This comes first, and its event does not name the comment: after a crash the question is still open, and the same
    comment answers it. Nothing refuses the approval after it, so no loop is left open without one.
    """
    if wanted.draft.whole or wanted.open_loops:
        return
    named = replace(app, origin=Origin(app.origin.actor, app.origin.channel))
    query = Issues((question.number,)).query
    loop_id, budget = loop.derive_loop_id(app, wanted.digest), wanted.draft.budget
    loop.start(named, loop_id, wanted.keys, intent=f"#{question.number}", query=query, budget=budget, goal="task_done")


UseCase = Callable[[App, Question, Answer], TaskState | None]

_USE_CASES: Final[Mapping[tuple[QuestionKind, str, str], UseCase]] = {
    ("issue", "fail_terminal", "retry"): _retry,
    ("issue", "fail_terminal", "verify"): _verify_again,
    ("issue", "pending_acceptance", "accept"): _accept,
    ("issue", "pending_acceptance", "send-back"): _send_back,
    ("issue", "blocked", "go-on"): _go_on,
    ("issue", "blocked", "send-back"): _try_again,
    ("issue", "blocked", "accept"): _accept_red,
    **{("issue", "reapproval_required", name): _approve for name in ("approve", *WAYS)},
    **{("issue", reason, "allow"): _allow for reason in ("fail_terminal", "pending_acceptance", "blocked")},
    **{("issue", rule.reason, "skip"): _skip for rule in RULES if rule.asked_of == "issue"},
    **{("issue", rule.reason, "stop"): _stop for rule in RULES if rule.asked_of == "issue"},
    ("loop", "protocol_gap", "go-on"): _resume,
    ("loop", "protocol_gap", "stop"): _stop,
    ("loop", "loop_budget_exhausted", "extend"): _extend,
    ("loop", "loop_budget_exhausted", "stop"): _stop,
}
"""The use case for each answer: by who asks, the halt reason and the choice."""


# --- Blocks that a timer lifts, for single steps


def let_time_pass(app: App, state: TaskState, seconds: float) -> TaskState:
    """Wait until this issue's timed block ends, at most *seconds*, then lift it; returns the issue's state.

    An issue without one is returned as it is. Raises NotEligible if the wait is longer, Cancelled if asked to stop.
    """
    left = time_left(state.not_before, app.clock.now()) if state.problem is None else None
    if left is None:
        return state
    name = f"issue-{state.issue_number}"
    if left.total_seconds() > seconds:
        raise NotEligible(
            f"{name} waits until {state.not_before} ({state.blocking_check})",
            remedy=f"the same with `--wait {math.ceil(left.total_seconds())}` waits for that, and "
            f"`{typed.retry(state.issue_number)}` goes on now",
        )
    if left:
        app.progress.note(f"{name} waits until {state.not_before} ({state.blocking_check})")
        if app.cancel.wait(left.total_seconds()):
            raise Cancelled(f"{name} still waits until {state.not_before}")
    return _lifted(app, state)


def _lifted(app: App, waited: TaskState) -> TaskState:
    """Record the timer's answer, unless a user answered first."""
    with app.driver.hold(f"issue-{waited.issue_number}, timer"):
        state = read_world(app).state(waited.issue_number)
        if state.sequence != waited.sequence:
            return state
        key = question_about(state, RULE["blocked"]).key
        by_timer = replace(app, origin=app.origin._replace(actor=TIMER, channel=TIMER))
        return answer_issue(by_timer, state.issue_number, Answer("go-on", by=TIMER, question=key))
