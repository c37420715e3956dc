"""What listings and `why` show: each open question with what helps to answer it, and where a task stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Literal, NamedTuple

from irontree.app import App
from irontree.domain import typed
from irontree.domain.checks import complaint_of
from irontree.domain.decide import ISSUES_EVERY, Aggregate, Finalize, Halt, Recover, Run, Step, Verify, decide, step_for
from irontree.domain.external import BY_CHECK
from irontree.domain.halt import SAME_FAILURE, Choice
from irontree.domain.ids import digest_of
from irontree.domain.meta import Meta
from irontree.domain.plan import Plan
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import few, sentence, shell_path
from irontree.errors import NotEligible, in_words
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import Funds, read_funds
from irontree.services.loops.loop import Loop, left_out, loop_of, newest_over_each, read_loops
from irontree.services.proposals.again import UNREADABLE, permission_choice, propose_again, special_choices
from irontree.services.questions.questions import Question, gate_words, gated, given_up, open_questions, question_about
from irontree.services.record import World, read_world
from irontree.services.views.history import request_url_of, results_at, say_issue_event, step_command
from irontree.services.views.overview import title_of, waits_for
from irontree.services.views.report import done_by

# --- Open questions in listings


def offered(app: App, world: World, question: Question) -> tuple[Choice, ...]:
    """The choices in the question's form: those that are legal now, except those that a gate takes only from comments.

    If no others remain, the form offers them all the same: it says who decides, and refuses them.
    """
    legal = question.choices(special_choices(app, question.reason, question.task_key))
    closed = gated(world, question)
    return tuple(choice for choice in legal if choice.name not in closed) or legal


class Approvable(NamedTuple):
    """What approving again would name; if that cannot be read, why. And what its text leaves open."""

    revision: str | None = None
    unreadable: str = ""
    left_open: tuple[str, ...] = ()


@dataclass
class Revisions:
    """What approving again would name, for lists that are made again every few seconds.

    A document is read each time. The text of an adopted issue is on the forge: it is read for a new question, and then
    once in *every*, by the seconds of *clock*.
    """

    every: timedelta = ISSUES_EVERY
    clock: Callable[[], float] = time.monotonic
    _read: dict[tuple[object, ...], tuple[float, Approvable]] = field(default_factory=dict)

    def of(self, app: App, world: World, question: Question) -> Approvable:
        """What would be approved of the document or the issue as it is now."""
        plan = world.plans.get(question.task_key or "")
        if plan is None or plan.adoption is None:
            return _approvable_now(app, plan)
        key, now = (app.repository.id, question.key, digest_of(plan)), self.clock()
        at, found = self._read.get(key, (now - self.every.total_seconds(), Approvable()))
        if now - at >= self.every.total_seconds():
            found = _approvable_now(app, plan)
            self._read = {kept: read for kept, read in self._read.items() if kept[:2] != key[:2]}
            self._read[key] = now, found
        return found


def revision_now(app: App, question: Question) -> str | None:
    """The name of what an answer would approve; None if that can be nothing, or cannot be read now."""
    if question.reason != "reapproval_required":
        return None
    return _approvable_now(app, read_world(app).plans.get(question.task_key or "")).revision


def list_questions(
    app: App, world: World, loops: Sequence[Loop], revisions: Revisions | None = None
) -> tuple[Question, ...]:
    """All open questions with what a listing shows of them; *loops* are all, including ended ones."""
    return tuple(_listed(app, world, one, revisions or Revisions()) for one in open_questions(app, world, loops))


def asked_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> Question | None:
    """This issue's question with what a listing shows of it; None if it has none. *loops* are the open ones."""
    rule = world.halt_of(state)
    if rule is None:
        return None
    return _listed(app, world, question_about(state, rule, loop_of(loops, state.task_key)), Revisions())


def _listed(app: App, world: World, question: Question, revisions: Revisions) -> Question:
    """The question with what a listing shows of it; for a budget, including how much is spent."""
    if question.issue_number is None:
        later = f", goes on by itself after {question.not_before}" if question.not_before else ""
        return replace(question, detail=f"{question.detail}{later}" if question.budget else "")
    state = world.state(question.issue_number)
    asks_approval = question.reason == "reapproval_required"
    now = revisions.of(app, world, question) if asks_approval else Approvable()
    gate = gate_words(app, world, replace(question, revision=now.revision))
    return replace(
        question,
        title=title_of(world, state.task_key),
        revision=now.revision,
        detail=question.detail or now.unreadable or _left_open(state, now.left_open),
        said=". ".join(filter(None, (_said(app, state), gate))),
        look=_look(world, state) if asks_approval else "",
        gated=gated(world, question),
        special=() if asks_approval else permission_choice(app, world, state),
    )


def _said(app: App, state: TaskState) -> str:
    """Why it is asked: the reason and remedy of a block, what failed with its last decisive line, what is to be judged.

    For proposed work, the address of its request.
    """
    if state.phase not in (Phase.BLOCKED, Phase.PENDING, Phase.TERMINAL) or state.problem:
        return ""
    stream = app.log.read(state.issue_number)
    if state.phase is Phase.TERMINAL:
        return ". ".join(filter(None, (stream.records[-1].told.reason.rstrip("."), _complaint(app, state))))
    if state.phase is Phase.PENDING:
        told = stream.records[-1].told
        if state.last_event == "checkup_accept_publication_failed":
            return ". ".join(filter(None, (f"not accepted yet: {told.reason}", told.remedy)))
        url = request_url_of(stream)
        return f"merge the request {url}: that accepts the work" if url else few(told.why)
    told = next((record.told for record in stream.records if record.event.sequence == state.sequence), Meta())
    failed = _complaint(app, state) if state.blocking_check == SAME_FAILURE else ""
    return ". ".join(text.rstrip(".") for text in (told.reason, failed, sentence(told.remedy)) if text)


def _complaint(app: App, state: TaskState) -> str:
    report = results_at(app, state.issue_number, state.anchor)
    return complaint_of(report.failed) if report and report.failed else ""


def _left_open(state: TaskState, asked: Sequence[str]) -> str:
    """What an adopted issue's text leaves open; it is answered in the issue, and nothing is approved before that."""
    if state.phase is not Phase.ADOPTED or not asked:
        return ""
    return f"its text leaves open: {'; '.join(asked)} (edit the issue, or add a comment)"


def _look(world: World, state: TaskState) -> str:
    plan = world.plans.get(state.task_key)
    if plan is None:
        return ""
    words = f"#{state.issue_number}" if plan.adoption else plan.spec_path
    return f"irontree task {shell_path(words)} --plan"


def _approvable_now(app: App, plan: Plan | None) -> Approvable:
    if plan is None:
        return Approvable()
    try:
        wanted = propose_again(app, plan)
    except UNREADABLE as error:
        return Approvable(unreadable=in_words(error))
    return Approvable(wanted.name, left_open=tuple(one for task in wanted.due for one in task.node.open_questions))


# --- Open questions with their links


FormUrl = Callable[[str], str]
"""Maps the id of a flow run to the address of its page."""


def waiting(app: App, form_url: FormUrl | None = None, revisions: Revisions | None = None) -> tuple[Question, ...]:
    """Every open question of *app*, with links to forms if a server is running."""
    world, loops = read_world(app), read_loops(app)[0]
    runs = _loop_runs(app, loops)
    return tuple(_placed(app, world, runs, asked, form_url) for asked in list_questions(app, world, loops, revisions))


def _placed(app: App, world: World, loop_runs: frozenset[str], asked: Question, form_url: FormUrl | None) -> Question:
    noted = _noted(app, world, asked)
    run = _asking_run(noted, frozenset() if asked.issue_number is None else loop_runs)
    tracker = app.preferences().tracker
    return replace(
        asked,
        root=app.repository.root,
        repository_id=app.repository.id,
        since=noted[-1].time or None if noted else None,
        issue_url=f"{tracker}/issues/{asked.issue_number}" if tracker and asked.issue_number is not None else None,
        form_url=form_url(run) if form_url and run else None,
    )


def _noted(app: App, world: World, asked: Question) -> list[Meta]:
    """The metadata of each event, up to the one that asks."""
    if asked.issue_number is None:
        return [record.told for record in app.loops.read(asked.loop_id or "").records]
    last = world.state(asked.issue_number).sequence
    return [record.told for record in app.log.read(asked.issue_number).records if record.event.sequence <= last]


def _asking_run(noted: Sequence[Meta], others: frozenset[str]) -> str | None:
    """The flow run that shows the form: the newest that recorded an event there, except *others*.

    A loop's run records what happened to a cancelled run of an issue, but is not the one that asks.
    """
    runs = (told.flow_run for told in reversed(noted))
    return next((run for run in runs if run and run not in others), None)


def _loop_runs(app: App, loops: Iterable[Loop]) -> frozenset[str]:
    found = (record.told.flow_run for loop in loops for record in app.loops.read(loop.id).records)
    return frozenset(filter(None, found))


# --- Why a task is done, next, ready, waiting, blocked or skipped


TaskStanding = Literal["done", "next", "ready", "waiting", "blocked", "skipped"]
_EVENTS_TOLD: Final = 5
_A_PERSON: Final = "a person decides"
_DOING: Final[dict[type[Step], str]] = {
    Recover: "the attempt that was cut off is looked at: its commit is kept, or its work put aside",
    Run: "an attempt",
    Verify: "the checks at its commit, then publication",
    Finalize: "its completion is recorded",
    Aggregate: "it is completed from its parts",
}
_ORDER: Final = (
    "a cut-off attempt first, then the issue in progress, then parents whose parts are done, then a new attempt; "
    "among equals the one that was touched least, then the lowest number (R11)"
)


_STOPPED: Final = "a stopped loop has ended, and its issues keep their state; an approval starts another (R17)"
_BY_HAND: Final = "a loop works on what was approved for it; all else goes on by commands"
_BUDGET: Final = "at the limit a person says how much more, or stops the loop (protocol, Budgets)"


@dataclass(frozen=True, slots=True)
class Over:
    """The newest loop over a task, which may have ended, and the other tasks that users gave up."""

    newest: Loop | None
    others_given_up: frozenset[str]

    @property
    def open(self) -> Loop | None:
        """The loop, if it has not ended."""
        return self.newest if self.newest and self.newest.is_open else None

    @property
    def stopped(self) -> Loop | None:
        """The loop, if a user stopped it."""
        return self.newest if self.newest and self.newest.entity.status == "cancelled" else None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where one task stands and why. `rule` is the rule that decided it; `events` are its newest, oldest first."""

    task_key: str
    issue_number: int | None
    standing: TaskStanding
    because: str
    rule: str
    events: tuple[str, ...] = ()


def explain(app: App, task_key: str) -> Explanation:
    """Explain where one task stands in the newest loop over it. Raises NotEligible if no plan or issue has its key."""
    world = read_world(app)
    state = world.states.get(task_key)
    if state is None:
        return _unpublished(world, task_key)
    loops = read_loops(app)[0]
    over = Over(newest_over_each(loops).get(task_key), given_up(loops, world) - {task_key})
    standing, because, rule = _standing(app, world, state, over)
    because = "; ".join((because, *app.deliveries.load(state.issue_number).noticed))
    records = app.log.read(state.issue_number).records[-_EVENTS_TOLD:]
    told = tuple(f"{record.event.sequence}. {say_issue_event(record)}" for record in records)
    return Explanation(task_key, state.issue_number, standing, because, rule, told)


def _unpublished(world: World, task_key: str) -> Explanation:
    if task_key not in world.nodes:
        raise NotEligible(f"no plan and no issue has the key {task_key}", remedy="`irontree status` lists them")
    rule = "a plan with unpublished nodes is continued without asking (R6)"
    return Explanation(task_key, None, "waiting", "it is approved, but its issue is not published yet", rule)


def _standing(app: App, world: World, state: TaskState, over: Over) -> tuple[TaskStanding, str, str]:
    if state.done:
        return (
            "done",
            done_by(app, world, state),
            "done needs a recorded basis, and a published commit where code changed",
        )
    if (skipped := _skipped(world, state, over.newest)) is not None:
        return "skipped", *skipped
    if rule := world.halt_of(state):
        detail = state.problem or _in_words(state)
        because = rule.title[0].lower() + rule.title[1:] + (f" ({detail})" if detail else "")
        question = question_about(state, rule, over.open.id if over.open else None)
        names = ", ".join(choice.typed for choice in offered(app, world, question))
        words = "; ".join(filter(None, (names, gate_words(app, world, question))))
        return "blocked", because, _who_decides(state, over, words)
    funds = read_funds(app, world)
    if state.task_key in funds.overspent([state.task_key]):
        return "blocked", f"no agent may work on it: {funds.overspent([state.task_key])[state.task_key]}", _BUDGET
    return _among_others(world, state, over, funds)


def _who_decides(state: TaskState, over: Over, words: str) -> str:
    """Who can unblock it, and with which choices; only commands can once its loop was stopped."""
    if over.stopped:
        command = typed.answer(state.issue_number)
        return f"loop {over.stopped.id} was stopped and asks no questions; the choices of `{command}` are: {words}"
    who = f"it is tried again after {state.not_before}, or {_A_PERSON}" if state.not_before else _A_PERSON
    return f"{who}; the choices are: {words}"


def _in_words(state: TaskState) -> str | None:
    """What blocks it: for equal failures with their number, for a change on the forge with its reason."""
    if state.blocking_check == SAME_FAILURE:
        return f"{SAME_FAILURE}: {state.same_failures} attempts in a row failed in the same way"
    outside = BY_CHECK.get(state.blocking_check or "")
    return f"{state.blocking_check}: {outside.reason}" if outside else state.blocking_check


def _skipped(world: World, state: TaskState, loop: Loop | None) -> tuple[str, str] | None:
    if state.task_key in world.cancelled:
        return "its node was taken out of the document, and cancelled", "a removed node is kept or cancelled (R7)"
    if loop and state.task_key in left_out(loop, world):
        return f"loop {loop.id} leaves it out", "skipping a task cancels it with all that depends on it (R17)"
    return None


def _among_others(world: World, state: TaskState, over: Over, funds: Funds) -> tuple[TaskStanding, str, str]:
    waiting = [key for key in world.states if key not in over.others_given_up]
    scope = scope_of(over.open, world, funds) if over.open else world.scope(waiting)
    step = step_for(scope, state)
    if step is None:
        needed = ", ".join(waits_for(world, state.task_key)) or "its parts: it has none, break it down"
        return "waiting", f"it needs {needed}", "a task starts when all it depends on is done"
    decision = decide(scope)
    command = step_command(step, state.issue_number)
    if over.stopped:
        return "ready", f"loop {over.stopped.id} was stopped: it waits for `{command}`", _STOPPED
    if decision == step:
        return "next", f"what comes: {_DOING[type(step)]}", _ORDER
    if isinstance(decision, Halt) and over.open is None:
        return "ready", f"no loop has it: it waits for `{command}`", _BY_HAND
    if isinstance(decision, Halt):
        at = f" at {decision.task_key}" if decision.task_key else ""
        return "ready", f"the loop has halted{at}: {decision.reason.replace('_', ' ')}", "halts come before new work"
    return "ready", f"{decision.task_key} comes first", _ORDER
