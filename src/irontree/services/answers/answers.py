"""One way in for every answer: form, terminal, command, comment and timer are validated against the log here (R11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from irontree.app import App
from irontree.domain.budgets import EXAMPLES, Unit, amount_of
from irontree.domain.decide import TIMER, time_left
from irontree.domain.halt import RULE, RULES, VALUES, Choice, Need, halt_of
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
from irontree.services.execution import checkup
from irontree.services.execution.checkup import Decider
from irontree.services.execution.merging import VERIFIED_AGAIN, settle_request
from irontree.services.execution.publication import OVERTAKEN
from irontree.services.execution.steps import (
    STALE_LEASE,
    follow_up,
    require_not_landed,
    settle_leftovers,
    take_over_lease,
)
from irontree.services.loops import loop
from irontree.services.proposals.again import grant_permissions
from irontree.services.proposals.proposal import WAYS, ApprovalChoices
from irontree.services.questions.questions import Kind, Question, question_about, question_of_loop, require_gate
from irontree.services.record import World, read_world
from irontree.services.views.history import request_url_of, rules_in_words
from irontree.services.work.preflight import STALE_LOCK

NOTE_LIMIT: Final = 8000
"""Maximum characters: it goes into an event, and those have 64 KiB."""

NOT_TAKEN: Final = (AnswerRefused, Busy, RemoteUnavailable)
"""Why an answer is not recorded: it does not fit, or time has to pass first. The question stays open."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person decided. `question` is the key of the question that was shown; None: whichever is open."""

    choice: str
    by: str
    note: str = ""
    count: int | None = None
    revision: str | None = None
    amount: str | None = None
    """How much more agents may spend, with its unit: `5 USD`, `200000 tokens`, `2h`."""
    question: str | None = None
    voters: tuple[str, ...] = ()
    """Accounts that say the same, confirmed by the forge; empty where the channel does not identify users."""


def answer_issue(app: App, issue_number: int, answer: Answer, loop_id: str | None = None) -> TaskState:
    """Record the answer to the question this issue asks, and back the log up. The caller holds the driver lock.

    Raises AnswerRefused when no question is open (early, second), another one is (stale), or the choice or
    what it needs does not fit (wrong); Busy or RemoteUnavailable where it may be taken later. Nothing is written then.
    """
    with _as_answer():
        app.preferences()  # what needs the configuration behind the event would fail there, with the answer recorded
        world = read_world(app)
        state = world.state(issue_number)
        question = _open_question(state, loop_id)
        choice = validate(question, answer)
        _require_wanted(app, world, state)
        if choice.name != "accept":
            require_not_landed(app, world, state)
        require_gate(app, question, choice, answer.voters)
        if not choice.loop_only:
            settle_leftovers(app)
        after = _take(app, question, choice, answer)
    if after:
        follow_up(app, after)
    app.repository.back_up()
    return after or state


def answer_loop(app: App, loop_id: str, answer: Answer) -> None:
    """Record the answer to a question that the loop itself asks, that it goes on or was stopped, and back the log up.

    Raises AnswerRefused as `answer_issue` does.
    """
    with _as_answer():
        question = question_of_loop(app, loop_id)
        if question is None:
            raise AnswerRefused(
                f"loop {loop_id} asks nothing now", remedy=f"`irontree loops {loop_id}` shows its state"
            )
        _take(app, question, validate(question, answer), answer)
    app.repository.back_up()


def _take(app: App, question: Question, choice: Choice, answer: Answer) -> TaskState | None:
    """Have done what was answered; the issue after that, if its own log says more now."""
    named = replace(answer, choice=choice.name)  # a form gives the label
    return _USE_CASES[question.kind, question.reason, choice.name](app, question, named)


def validate(question: Question, answer: Answer) -> Choice:
    """The choice that was made, if it fits the question; raises AnswerRefused with what would."""
    if answer.question and answer.question != question.key:
        raise AnswerRefused(
            f"this answer is for {answer.question}, but {question.key} is open now",
            remedy="look at the present question, then answer that one",
        )
    special = [choice.name for choice in question.rule.choices if choice.special]
    legal = question.choices(special)
    choice = next((item for item in legal if answer.choice in (item.name, item.label)), None)
    if choice is None:
        names = ", ".join(item.name for item in legal if not item.special)
        raise AnswerRefused(f"“{answer.choice}” is no answer to “{question.rule.title}”", remedy=f"one of: {names}")
    _require_needs(choice, answer)
    if question.budget and "amount" in choice.needs:
        _require_unit(question.budget.unit, answer.amount or "")
    return choice


def _require_unit(unit: Unit, text: str) -> None:
    amount = amount_of(text)
    if amount is None or amount.unit != unit:
        raise AnswerRefused(
            f"“{text}” is no amount of what is used up", remedy=f"say how much more, such as extend:{EXAMPLES[unit]}"
        )


def _require_needs(choice: Choice, answer: Answer) -> None:
    count = answer.count if VALUES["count"].fullmatch(str(answer.count)) else None
    given = {"note": answer.note.strip(), "count": count, "amount": answer.amount, "revision": answer.revision}
    missing = [_NEEDED[need] for need in choice.needs if not given[need]]
    if missing:
        raise AnswerRefused(
            f"“{choice.name}” needs {missing[0]}", remedy=f"answer again with {missing[0]}{_example(missing[0])}"
        )
    if len(answer.note) > NOTE_LIMIT:
        raise AnswerRefused(
            f"the note has {len(answer.note)} characters, {NOTE_LIMIT} are the limit", remedy="put long texts elsewhere"
        )
    if len(answer.by.strip()) == 0:
        raise AnswerRefused("the answer does not say who decided", remedy="give a name")


_NEEDED: Final[dict[Need, str]] = {
    "note": "a note",
    "count": "a count from 1 to 50",
    "amount": "an amount",
    "revision": "a revision",
}


def _example(needed: str) -> str:
    return ", with its unit: 5 USD, 200000 tokens or 2h" if needed == _NEEDED["amount"] else ""


@contextmanager
def _as_answer() -> Iterator[None]:
    """Whatever refuses to do what was answered refuses the answer, but for what time alone can cure."""
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
            f"issue-{state.issue_number} asks nothing now: it is {state.phase}",
            remedy=f"`irontree show issue-{state.issue_number}` tells what happened",
        )
    return question_about(state, rule, loop_id)


def _require_wanted(app: App, world: World, state: TaskState) -> None:
    """What was skipped stays so while its loop is open (R17)."""
    newest = loop.newest_over_each(loop.read_loops(app)[0]).get(state.task_key)
    if newest and newest.is_open and state.task_key in loop.left_out(newest, world):
        raise AnswerRefused(
            f"issue-{state.issue_number} was skipped in loop {newest.id}, and stays so while that is open",
            remedy=f"answer once it is over; `irontree task resume {newest.id} cancel` ends it",
        )


def _skip(app: App, question: Question, answer: Answer) -> None:
    """Skip the task in its loop: events of the loop, not of the issue (R17)."""
    loop.skip(app, question.loop_id or "", question.task_key or "", answer.by, answer.note)


def _stop(app: App, question: Question, answer: Answer) -> None:
    """Stop the loop; its issues keep their state."""
    loop.cancel(app, question.loop_id or "", answer.by, note=answer.note)


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
    """Publish it; what is proposed is accepted by its merge, which may be there already (R15)."""
    world = read_world(app)
    state = world.state(question.number)
    if not state.is_proposed:
        return checkup.accept(app, question.number, _decider(answer))
    after = settle_request(app, world, state)
    if after is None:
        url = request_url_of(app.log.read(question.number)) or f"request #{state.request}"
        raise AnswerRefused(f"{url} is not merged yet", remedy="merge it there: that accepts the work")
    return after


def _send_back(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.send_back(app, question.number, _decider(answer))


def _retry(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.unblock(app, question.number, "retry", _decider(answer), extra_attempts=answer.count or 0)


def _verify_again(app: App, question: Question, answer: Answer) -> TaskState:
    return checkup.unblock(app, question.number, "verify", _decider(answer))


def _go_on(app: App, question: Question, answer: Answer) -> TaskState:
    """Do what the person confirmed, behind the event that says so: a kill in between asks again."""
    state = read_world(app).state(question.number)
    if state.problem:
        raise AnswerRefused(f"issue-{question.number}: {state.problem}", remedy=state.way_out)
    after = _unblocked(app, state, answer)
    if state.blocking_check == STALE_LOCK:
        app.run_lock.override()
    if state.blocking_check == STALE_LEASE:
        take_over_lease(app)
    return after


def _unblocked(app: App, state: TaskState, answer: Answer) -> TaskState:
    """Where the work does not fit the target any more, going on means doing it again on top of that.

    What was proposed in vain is proposed again; a request that was merged meanwhile is found then.
    """
    if state.blocking_check in VERIFIED_AGAIN and state.commit:
        return checkup.unblock(app, state.issue_number, "verify", _decider(answer))
    if state.blocking_check not in OVERTAKEN:
        return checkup.unblock(app, state.issue_number, "resume", _decider(answer))
    spent = state.attempt_count > state.max_retry_count
    return checkup.unblock(app, state.issue_number, "retry", _decider(answer), extra_attempts=1 if spent else 0)


def _allow(app: App, question: Question, answer: Answer) -> TaskState:
    """Approve the rules for what the agent was denied, and give it another attempt.

    A kill in between asks again: the rules are approved then, and any answer that goes on does.
    """
    state = read_world(app).state(question.number)
    words = rules_in_words(grant_permissions(app, question.number))
    note = answer.note.strip() or f"what was denied is allowed now: {'; '.join(words)}"[:NOTE_LIMIT]
    decider = Decider(answer.by.strip(), note, allowed=words)
    if state.phase is Phase.PENDING:
        return checkup.send_back(app, question.number, decider)
    if state.phase is Phase.BLOCKED:
        return checkup.unblock(app, question.number, "resume", decider)
    return checkup.unblock(app, question.number, "retry", decider, extra_attempts=1)


def _approve(app: App, question: Question, answer: Answer) -> TaskState:
    chosen = WAYS.get(answer.choice, ApprovalChoices())
    return approve_again(app, question.number, answer.revision or "", answer.by.strip(), chosen)


UseCase = Callable[[App, Question, Answer], TaskState | None]

_USE_CASES: Final[Mapping[tuple[Kind, str, str], UseCase]] = {
    ("issue", "fail_terminal", "retry"): _retry,
    ("issue", "fail_terminal", "verify"): _verify_again,
    ("issue", "pending_acceptance", "accept"): _accept,
    ("issue", "pending_acceptance", "send-back"): _send_back,
    ("issue", "blocked", "go-on"): _go_on,
    **{("issue", "reapproval_required", name): _approve for name in ("approve", *WAYS)},
    **{("issue", reason, "allow"): _allow for reason in ("fail_terminal", "pending_acceptance", "blocked")},
    **{("issue", rule.reason, "skip"): _skip for rule in RULES if rule.asked_of == "issue"},
    **{("issue", rule.reason, "stop"): _stop for rule in RULES if rule.asked_of == "issue"},
    ("loop", "protocol_gap", "go-on"): _resume,
    ("loop", "protocol_gap", "stop"): _stop,
    ("loop", "loop_budget_exhausted", "extend"): _extend,
    ("loop", "loop_budget_exhausted", "stop"): _stop,
}
"""What is done for each answer: by what asks, why, and the choice."""


# --- Blocks that clear with time, for single steps


def let_time_pass(app: App, state: TaskState, seconds: float) -> TaskState:
    """The issue once the time it waits for has come, which may be *seconds* away; as it is if it waits for none.

    Raises NotEligible if that is longer, saying until when and what to do; Cancelled when asked to stop meanwhile.
    """
    left = time_left(state.not_before, app.clock.now()) if state.problem is None else None
    if left is None:
        return state
    name = f"issue-{state.issue_number}"
    if left.total_seconds() > seconds:
        raise NotEligible(
            f"{name} waits until {state.not_before} ({state.blocking_check})",
            remedy=f"the same with `--wait {math.ceil(left.total_seconds())}` waits for that, and "
            f"`irontree checkup unblock {name}` goes on now",
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
