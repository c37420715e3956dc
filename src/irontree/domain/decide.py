"""`decide(scope) -> Decision`: the next action of a loop or of one issue (protocol, Decision Function; R11).

It goes by the replayed phase, not by the decision function's literal wording, which misroutes four states.
Order: an attempt that was cut off, halts, the issue in progress, aggregation, a new run; ties: lowest sequence,
then lowest issue number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from irontree.domain.halt import RULES, concerns_one_issue, halt_of
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import few
from irontree.domain.timestamps import moment
from irontree.domain.values import HaltReason


@dataclass(frozen=True, slots=True)
class _OfTask:
    task_key: str


class Recover(_OfTask):
    """Recover an attempt that was cut off, from its evidence."""

    __slots__ = ()


class Run(_OfTask):
    """Start an attempt."""

    __slots__ = ()


class Verify(_OfTask):
    """Check the committed change, and publish it."""

    __slots__ = ()


class Finalize(_OfTask):
    """Bind the completion evidence."""

    __slots__ = ()


class Aggregate(_OfTask):
    """Complete a parent from its children."""

    __slots__ = ()


class Halt(NamedTuple):
    """Hand the next decision to a person; `task_key` is the task it halted at, if any.

    `waiting` are the tasks that asked while others went on, in the order of the halts.
    """

    reason: HaltReason
    task_key: str | None = None
    detail: str = ""
    waiting: tuple[str, ...] = ()


Step = Recover | Run | Verify | Finalize | Aggregate
Decision = Step | Halt


@dataclass(frozen=True, slots=True)
class Scope:
    """What a loop may touch: its frozen set less the cancelled tasks, with states and nodes by key."""

    nodes: Mapping[str, PlanNode]
    """Every node of the plans involved, in scope or not: dependencies and children may lie outside."""
    states: Mapping[str, TaskState]
    keys: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    """Planned children by parent: all that the plan lists, not only those already published (B11)."""
    budget_left: int = 1
    overspent: Mapping[str, str] = field(default_factory=dict)
    """Tasks whose next step would call an agent although a budget is used up, and which budget, in words."""
    go_on: Collection[str] = frozenset()
    """Tasks whose plan lets others go on while they wait for a person (`loop.on_halt: go_on`, R17)."""


_BY_PHASE: Final[dict[Phase, type[Recover | Verify | Finalize]]] = {
    Phase.RUNNING: Recover,
    Phase.COMMITTED: Verify,
    Phase.VERIFIED: Finalize,
}
_CUT_OFF, _IN_PROGRESS, _AGGREGATE, _NEW = range(4)
_TURN: Final = {
    Phase.RUNNING: _CUT_OFF,
    Phase.COMMITTED: _IN_PROGRESS,
    Phase.VERIFIED: _IN_PROGRESS,
    Phase.CONTAINER: _AGGREGATE,
}
"""Order of the phases; a ready task is new unless it has begun."""
_LISTED: Final = 10


def decide(scope: Scope) -> Decision:
    """The next step, or the halt that precedes it.

    A cut-off attempt is recovered before anything else, even a halt or a used-up budget: until then its work is only in
    the workspace, which publication and the next attempt use too (R11). Tasks that let others go on halt the loop
    only once no step is left.
    """
    states = [scope.states[key] for key in scope.keys if key in scope.states]
    left = [state for state in states if not state.done]  # most tasks of a long loop are done: filter them out once
    if states and not left and len(states) == len(scope.keys):
        return Halt("goal_reached")
    step = _best_step(scope, left)
    if isinstance(step, Recover):
        return step
    waits = _waiting(scope, left)
    decision = _halt_before(scope, left, step, waits) or step or _last_halt(scope, left, waits)
    if isinstance(decision, Halt) and waits:
        return decision._replace(waiting=tuple(state.task_key for state in waits))
    return decision


def _halt_before(
    scope: Scope, left: Collection[TaskState], step: Step | None, waits: Collection[TaskState]
) -> Decision | None:
    """What comes before *step*: a halt, or, if it would spend what is used up, the best step that does not."""
    beside = {state.task_key for state in waits}
    halt = _first_halt(state for state in left if state.task_key not in beside)
    if halt or step is None:
        return halt
    if scope.budget_left <= 0:
        return Halt("loop_budget_exhausted")
    if step.task_key in scope.overspent:
        return _without_agent(scope, left) or Halt("loop_budget_exhausted", detail=scope.overspent[step.task_key])
    return None


def _last_halt(scope: Scope, left: Collection[TaskState], waits: Collection[TaskState]) -> Halt:
    """The halt where no step is left: only tasks that wait for a person, or that nothing can start."""
    return _first_halt(waits) or Halt("protocol_gap", detail=_what_is_left(scope, left))


def _without_agent(scope: Scope, left: Iterable[TaskState]) -> Step | None:
    """The best step that calls no agent: checks, publication and mere recording spend no budget."""
    free = (state for state in left if state.phase is not Phase.READY and state.task_key not in scope.overspent)
    return _best_step(scope, free)


def step_for(scope: Scope, state: TaskState) -> Step | None:
    """The next step of this issue alone, or `None` if it is done, halted, or waits for others.

    Also `None` for a log that cannot be trusted, and for a task that no plan approves.
    """
    if state.problem or state.task_key not in scope.nodes:
        return None
    settled = _BY_PHASE.get(state.phase)
    if settled:
        return settled(state.task_key)
    parts = scope.children.get(state.task_key, ())  # a container without children is never complete (B11)
    if state.phase is Phase.CONTAINER and parts and all(_done(scope, key) for key in parts):
        return Aggregate(state.task_key)
    if state.phase is Phase.READY and may_start(scope, state):
        return Run(state.task_key)
    return None


def waiting(scope: Scope) -> tuple[TaskState, ...]:
    """The tasks that wait for a person and let others go on, in the order of the halts."""
    return _waiting(scope, (scope.states[key] for key in scope.keys if key in scope.states))


def _waiting(scope: Scope, states: Iterable[TaskState]) -> tuple[TaskState, ...]:
    if not scope.go_on:
        return ()
    mine = sorted((s for s in states if s.task_key in scope.go_on and concerns_one_issue(s)), key=_tie)
    return tuple(state for rule in RULES for state in mine if halt_of(state) is rule)


def _first_halt(states: Iterable[TaskState]) -> Halt | None:
    """The halt with the most specific reason; among equals, at the lowest sequence, then issue number."""
    found: dict[HaltReason, TaskState] = {}
    for state in states:
        rule = halt_of(state)
        if rule and (rule.reason not in found or _tie(state) < _tie(found[rule.reason])):
            found[rule.reason] = state
    for rule in RULES:
        if rule.reason in found:
            state = found[rule.reason]
            return Halt(rule.reason, state.task_key, state.problem or state.blocking_check or "")
    return None


def _best_step(scope: Scope, states: Iterable[TaskState]) -> Step | None:
    """The first step in order; the dependencies of later tasks are not examined."""
    for state in sorted(states, key=_rank):
        step = step_for(scope, state)
        if step:
            return step
    return None


def _rank(state: TaskState) -> tuple[int, int, int]:
    begun = state.phase is Phase.READY and state.started
    return _IN_PROGRESS if begun else _TURN.get(state.phase, _NEW), state.sequence, state.issue_number


def _tie(state: TaskState) -> tuple[int, int]:
    return state.sequence, state.issue_number


def may_start(scope: Scope, state: TaskState) -> bool:
    """Whether an attempt may start: the node is executable, and begun already or all it needs is done (DAG rules)."""
    node = scope.nodes.get(state.task_key)
    if node is None or node.executability != "executable":
        return False
    return state.started or all(_done(scope, key) for key in node.depends_on)


def _done(scope: Scope, key: str) -> bool:
    state = scope.states.get(key)
    return state is not None and state.done


def _what_is_left(scope: Scope, left: Iterable[TaskState]) -> str:
    unpublished = sorted(key for key in scope.keys if key not in scope.states)
    waiting = [state.task_key for state in sorted(left, key=_tie)]
    return "; ".join(_waits_for(scope, key) for key in [*unpublished, *waiting][:_LISTED]) or "no task is in scope"


def _waits_for(scope: Scope, key: str) -> str:
    if key not in scope.states:
        return f"{key} is not published"
    node = scope.nodes.get(key)
    if node is None:
        return f"{key} is in no plan"
    if node.executability == "container":
        open_children = [child for child in scope.children.get(key, ()) if not _done(scope, child)]
        return f"{key} waits for its children {few(open_children, _LISTED) or '(it has none: break it down)'}"
    return f"{key} waits for {few([dep for dep in node.depends_on if not _done(scope, dep)], _LISTED)}"


# --- Forecast: what a loop would do if every attempt went well


NeedsPerson = Callable[[str], bool]
"""Whether a person has to judge the task with that key: a criterion that nothing covers."""
_EVENTS_OF: Final = {Run: 2, Verify: 1, Finalize: 1, Aggregate: 1, Recover: 1, Halt: 1}
"""Events that each step writes when all goes well: among equals, the lowest sequence goes first (R11)."""


class ForecastStep(NamedTuple):
    """One decision. `assumed` is its assumed outcome; empty where the forecast ends."""

    decision: Decision
    assumed: str = ""


def forecast(scope: Scope, needs_person: NeedsPerson) -> Iterator[ForecastStep]:
    """Every decision in order, up to the goal or the first halt at which a person has to judge a failure."""
    while True:
        decision = decide(scope)
        phase, assumed = _outcome(decision, needs_person)
        yield ForecastStep(decision, assumed)
        if phase is None or decision.task_key is None:
            return
        scope = _after(scope, decision, decision.task_key, phase)


def as_published(node: PlanNode, number: int) -> TaskState:
    """The state of *node* just after its issue is published."""
    container = node.executability == "container"
    return TaskState(
        task_key=node.task_key,
        issue_number=number,
        spec_revision="",
        approved_revision="",
        sequence=1,
        last_event="task_published",
        phase=Phase.CONTAINER if container else Phase.READY,
        current_stage="definition",
        next_stage="decompose" if container else "run",
        workflow_entry_state="needs_breakdown" if container else "ready_to_start",
        approval_state="approved",
        attempt_count=0,
        max_retry_count=0,
        code_publication_state="not_applicable",
    )


def _outcome(decision: Decision, needs_person: NeedsPerson) -> tuple[Phase | None, str]:
    match decision:
        case Recover():
            return Phase.READY, "its work is kept, and the attempt begins again"
        case Run():
            return Phase.COMMITTED, "the agent's change is committed"
        case Verify(task_key) if needs_person(task_key):
            return Phase.PENDING, "its checks pass, and a person has to judge the rest"
        case Verify():
            return Phase.VERIFIED, "its checks pass, and it is published"
        case Aggregate():
            return Phase.VERIFIED, "all its parts are done"
        case Finalize():
            return Phase.DONE, "it is done"
        case Halt("pending_acceptance"):
            return Phase.VERIFIED, "you accept it"
        case _:
            return None, ""


def _after(scope: Scope, decision: Decision, task_key: str, phase: Phase) -> Scope:
    state = scope.states[task_key]
    after = replace(
        state,
        phase=phase,
        sequence=state.sequence + _EVENTS_OF[type(decision)],
        runs_started=state.runs_started + isinstance(decision, Run),
    )
    states: Mapping[str, TaskState] = {**scope.states, task_key: after}
    spent = not isinstance(decision, Halt)
    return replace(scope, states=states, budget_left=scope.budget_left - spent)


# --- Back-off schedule for blocks that clear with time (`not_before`, R12)


FIRST_WAIT: Final = timedelta(minutes=5)
LONGEST_WAIT: Final = timedelta(hours=4)
COMMENTS_EVERY: Final = timedelta(seconds=30)
"""How often comments are polled while a question is open."""
ISSUES_EVERY: Final = timedelta(seconds=60)
"""How often issues are polled for changes of their text, state and labels."""
LONGEST_SILENCE: Final = timedelta(minutes=15)
TIMER: Final = "timer"
"""The actor and the channel of an answer that the timer gives."""


def next_try(now: datetime, waits: int, announced: datetime | None = None) -> datetime:
    """When to try again: at the *announced* time, else after a wait that doubles with each of *waits* so far."""
    if announced is not None and announced > now:
        return announced
    return now + min(LONGEST_WAIT, FIRST_WAIT * (1 << min(waits, 16)))


def next_look(
    now: datetime, failures: int, announced: datetime | None = None, *, every: timedelta = COMMENTS_EVERY
) -> datetime:
    """When to poll comments again: later with each of *failures* in a row, and not before the *announced* time."""
    if announced is not None and announced > now:
        return announced
    return now + max(every, min(LONGEST_SILENCE, every * (1 << min(failures, 16))))


def is_due(not_before: str | None, now: datetime) -> bool:
    """Whether the time (ISO 8601, as in events) has come; `False` if it cannot be read."""
    left = time_left(not_before, now)
    return left is not None and not left


def time_left(not_before: str | None, now: datetime) -> timedelta | None:
    """How long until the time (ISO 8601, as in events), zero once it has come; `None` if it cannot be read."""
    at = moment(not_before)
    return max(at - now, timedelta(0)) if at else None
