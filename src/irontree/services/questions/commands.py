"""What to type, and why: the command for every answer and every step, and in plain words where a task stands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from irontree.app import App
from irontree.domain.budgets import EXAMPLES
from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Step, Verify, decide, step_for
from irontree.domain.external import BY_CHECK
from irontree.domain.halt import Choice
from irontree.domain.state import TaskState
from irontree.errors import NotEligible
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import Funds, overspent, read_funds
from irontree.services.loops.loop import Loop, left_out, loop_of, newest_over_each, read_loops, still_open
from irontree.services.questions.questions import Kind, Question, given_up, offered, question_about
from irontree.services.record import World, read_world
from irontree.services.views.history import say_issue_event, step_command
from irontree.services.views.overview import SERVING, waits_for
from irontree.services.work.preflight import SAME_FAILURE

_COMMANDS: Final[Mapping[tuple[Kind, str, str], str]] = {
    ("issue", "pending_acceptance", "accept"): "irontree checkup accept issue-{number}",
    ("issue", "pending_acceptance", "send-back"): "irontree checkup reject issue-{number} 'NOTE'",
    ("issue", "fail_terminal", "retry"): "irontree checkup unblock issue-{number} --retry 1",
    ("issue", "fail_terminal", "verify"): "irontree checkup unblock issue-{number} --verify",
    ("issue", "blocked", "go-on"): "irontree checkup unblock issue-{number}",
    ("issue", "reapproval_required", "approve"): "irontree checkup unblock issue-{number} --approve {revision}",
    ("loop", "protocol_gap", "go-on"): "irontree task resume {loop_id} --answer loop=go-on",
    ("loop", "loop_budget_exhausted", "extend"): "irontree task resume {loop_id} --answer {extend}",
    ("document", "reapproval_required", "approve"): "irontree task {document} --approve {revision}",
}
_WHATEVER_ASKS: Final[Mapping[str, str]] = {
    "allow": "irontree checkup unblock issue-{number} --allow",
    "skip": "irontree task resume {loop_id} skip {task_key}",
    "stop": "irontree task resume {loop_id} cancel",
}
DAMAGED: Final = "irontree checkup reconcile"
"""What comes before any answer where the log of an issue has holes."""


def answers_to(question: Question, program: str = "irontree") -> tuple[tuple[Choice, str], ...]:
    """Every choice that a command may make, with that command; none while the log is damaged."""
    if question.damaged:
        return ()
    open_to_all = (choice for choice in question.choices(question.special) if not (question.gated and choice.permits))
    return tuple((choice, called(_command(question, choice), program)) for choice in open_to_all)


def called(command: str, program: str) -> str:
    """The command where the program is called so."""
    return f"{program}{command.removeprefix('irontree')}"


def _command(question: Question, choice: Choice) -> str:
    form = _COMMANDS.get((question.kind, question.reason, choice.name)) or _WHATEVER_ASKS[choice.name]
    amount = EXAMPLES[question.budget.unit] if question.budget else "20"
    return form.format(
        number=question.issue_number,
        loop_id=question.loop_id,
        task_key=shlex.quote(question.task_key or ""),
        document=shlex.quote(question.document),
        revision=question.revision or "REVISION",
        extend=shlex.quote(f"loop=extend:{amount}"),
    )


def question_json(question: Question, program: str = "irontree") -> dict[str, Any]:
    """The documented keys."""
    return {
        "issue": question.issue_number,
        "document": question.document or None,
        "task_key": question.task_key,
        "title": question.title or None,
        "loop_id": question.loop_id,
        "reason": question.reason,
        "question": question.rule.title,
        "detail": question.detail,
        "not_before": question.not_before,
        "said": question.said or None,
        "look": called(question.look, program) if question.look else None,
        "answers": [
            {"choice": choice.name, "label": choice.label, "needs": list(choice.needs), "command": command}
            for choice, command in answers_to(question, program)
        ],
    }


# --- What to type next where nobody is at work: of a repository, and of one issue, by one rule


def next_command(app: App, world: World, loops: Sequence[Loop]) -> str:
    """What lets the work go on: the newest open loop, else a single step; empty for none. *loops* are all."""
    alive = still_open(loops)
    if alive:
        return _resume(app, alive[-1].id)
    keys, unpaid = _wanted(app, world, loops)
    decision = decide(world.scope(keys, overspent=unpaid))
    return "" if isinstance(decision, Halt) else _step(world, decision)


def next_command_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> str:
    """What to type next for this issue, else for the one whose turn it is; empty if that is nobody's command.

    An issue of an open loop goes on with its loop: by itself while that is at work, else when it is resumed. None of
    what a person skipped or stopped is named, nor what no agent may work on.
    """
    loop_id = loop_of(still_open(loops), state.task_key)
    if loop_id:
        return "" if world.halt_of(state) else _resume(app, loop_id)
    keys, unpaid = _wanted(app, world, loops)
    wanted = state.task_key in keys and state.task_key not in unpaid
    step = step_for(world.scope((state.task_key,)), state) if wanted else None
    return _step(world, step) if step else next_command(app, world, loops)


def goes_on(app: App) -> bool:
    """Whether a loop goes on here by itself: it is at work, or its flows are served from a terminal."""
    return bool(app.lease.holder() or app.alive(SERVING).holder())


def _wanted(app: App, world: World, loops: Sequence[Loop]) -> tuple[list[str], Mapping[str, str]]:
    """The tasks that nobody has given up, and which of them no agent may work on."""
    nobodys = given_up(loops, world)
    keys = [key for key in world.states if key not in nobodys]
    return keys, overspent(app, world, loops, keys)


def _resume(app: App, loop_id: str) -> str:
    return "" if goes_on(app) else f"irontree task resume {loop_id}"


def _step(world: World, step: Step) -> str:
    return step_command(step, world.states[step.task_key].issue_number)


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
    """The newest loop over a task, which may have ended, and which other tasks a person gave up."""

    newest: Loop | None
    others_given_up: frozenset[str]

    @property
    def open(self) -> Loop | None:
        """The loop, if it may still go on."""
        return self.newest if self.newest and self.newest.is_open else None

    @property
    def stopped(self) -> Loop | None:
        """The loop, if a person ended it."""
        return self.newest if self.newest and self.newest.entity.status == "cancelled" else None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where one task stands and why. `rule` is the rule that decided; `events` are its newest, oldest first."""

    task_key: str
    issue_number: int | None
    standing: TaskStanding
    because: str
    rule: str
    events: tuple[str, ...] = ()


def explain(app: App, task_key: str) -> Explanation:
    """Explain one task, as the newest loop over it sees it; raises NotEligible if nothing knows it."""
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
        return "done", _evidence(state), "done needs a recorded basis, and a published commit where code changed"
    if (skipped := _skipped(world, state, over.newest)) is not None:
        return "skipped", *skipped
    if rule := world.halt_of(state):
        detail = state.problem or _in_words(state)
        because = rule.title[0].lower() + rule.title[1:] + (f" ({detail})" if detail else "")
        question = question_about(state, rule, over.open.id if over.open else None)
        names = ", ".join(choice.name for choice in offered(app, world, question))
        return "blocked", because, _who_decides(state, over, names)
    funds = read_funds(app, world)
    if state.task_key in funds.overspent([state.task_key]):
        return "blocked", f"no agent may work on it: {funds.overspent([state.task_key])[state.task_key]}", _BUDGET
    return _among_others(world, state, over, funds)


def _who_decides(state: TaskState, over: Over, words: str) -> str:
    """Who lifts what blocks it, by which choices; by commands alone once its loop was stopped."""
    if over.stopped:
        return f"loop {over.stopped.id} was stopped, and asks nobody; the choices of `irontree checkup` are: {words}"
    who = f"it is tried again after {state.not_before}, or {_A_PERSON}" if state.not_before else _A_PERSON
    return f"{who}; the choices are: {words}"


def _in_words(state: TaskState) -> str | None:
    """What blocks it; the same failure with how often it came, what was done outside with its reason."""
    if state.blocking_check == SAME_FAILURE:
        return f"{SAME_FAILURE}: {state.same_failures} attempts in a row failed in the same way"
    outside = BY_CHECK.get(state.blocking_check or "")
    return f"{state.blocking_check}: {outside.reason}" if outside else state.blocking_check


def _evidence(state: TaskState) -> str:
    where = f" at {state.code_ref[:7]}" if state.has_code and state.code_ref else ""
    return f"{state.completion_basis}{where}"


def _skipped(world: World, state: TaskState, loop: Loop | None) -> tuple[str, str] | None:
    if state.task_key in world.cancelled:
        return "its node was taken out of the document, and cancelled", "a removed node is kept or cancelled (R7)"
    if loop and state.task_key in left_out(loop, world):
        return f"loop {loop.id} leaves it out", "to skip a task cancels it with all that depends on it (R17)"
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
