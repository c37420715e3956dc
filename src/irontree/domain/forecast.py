"""What a loop would do, step by step, if every attempt went well: `decide` over imagined outcomes, nothing touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from irontree.domain.decide import Aggregate, Decision, Finalize, Halt, Recover, Run, Scope, Verify, decide
from irontree.domain.state import Phase, TaskState

if TYPE_CHECKING:
    from irontree.domain.plan import PlanNode

NeedsPerson = Callable[[str], bool]
"""Whether a person has to judge the task with that key: a criterion that nothing covers."""
_EVENTS_OF: Final = {Run: 2, Verify: 1, Finalize: 1, Aggregate: 1, Recover: 1, Halt: 1}
"""How many events each writes when all goes well: among equals, the lowest sequence goes first (R11)."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One decision. `assumed` says what it is taken to come to; empty where the walk ends."""

    decision: Decision
    assumed: str = ""


def forecast(scope: Scope, needs_person: NeedsPerson) -> Iterator[Foreseen]:
    """Every decision in order, to the goal, or to the first halt that only a person's judgement of a failure ends."""
    while True:
        decision = decide(scope)
        phase, assumed = _outcome(decision, needs_person)
        yield Foreseen(decision, assumed)
        if phase is None or decision.task_key is None:
            return
        scope = _after(scope, decision, decision.task_key, phase)


def as_published(node: PlanNode, number: int) -> TaskState:
    """The state that *node* would have just after its issue was made."""
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
