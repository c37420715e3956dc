"""What the log asks a person: the same question for form, terminal, command line and comment (rulings, Questions)."""

from __future__ import annotations

from dataclasses import dataclass

from irontree.app import App
from irontree.domain.decide import Halt, decide
from irontree.domain.halt import AGENT_BUDGET, RULE, HaltRule
from irontree.domain.ledger import Budget
from irontree.domain.state import TaskState
from irontree.services.loops import loop
from irontree.services.loops.deciding import scope_of
from irontree.services.loops.funds import read_funds
from irontree.services.world import read_world


@dataclass(frozen=True, slots=True)
class Question:
    """An issue or a loop waits for a person. `key` is the same as long as the log is (rulings, Questions)."""

    rule: HaltRule
    key: str
    issue_number: int | None = None
    task_key: str | None = None
    sequence: int = 0
    loop_id: str | None = None
    detail: str = ""
    not_before: str | None = None
    """When a timer answers it, unless a person is faster (ISO 8601)."""
    budget: Budget | None = None
    """What is spent, where agents may spend no more."""


def question_about(state: TaskState, rule: HaltRule, loop_id: str | None = None) -> Question:
    """The question that the newest event of this issue raises."""
    return Question(
        rule=rule,
        key=f"issue-{state.issue_number}-{state.sequence}-{rule.reason.replace('_', '-')}",
        issue_number=state.issue_number,
        task_key=state.task_key,
        sequence=state.sequence,
        loop_id=loop_id,
        detail=state.problem or state.blocking_check or "",
        not_before=state.not_before if rule.reason == "blocked" and not state.problem else None,
    )


def question_of_loop(app: App, loop_id: str) -> Question | None:
    """The question a halted loop asks itself (budget, protocol gap); None if it asks none."""
    return question_of(app, loop.read_loop(app, loop_id))


def question_of(app: App, found: loop.Loop) -> Question | None:
    """The same of a loop that was read already; one that cannot be trusted asks nothing: no answer can be recorded."""
    entity = found.entity
    if found.damage or entity.status != "halted" or entity.halt_reason not in RULE:
        return None
    rule = RULE[entity.halt_reason]
    if rule.asked_of != "loop":
        return None
    if rule.reason == "loop_budget_exhausted" and found.budget_left > 0:
        return _question_of_budget(app, found)
    key = f"loop-{found.id}-{found.sequence}-{rule.reason.replace('_', '-')}"
    detail = str(app.loops.read(found.id).records[-1].meta.get("detail", ""))
    return Question(rule=rule, key=key, sequence=found.sequence, loop_id=found.id, detail=detail)


def _question_of_budget(app: App, found: loop.Loop) -> Question | None:
    """What the loop asks whose agents may spend no more; None once there is more: allowed, or of a new day."""
    world = read_world(app)
    funds = read_funds(app, world)
    decision = decide(scope_of(found, world, funds))
    if not isinstance(decision, Halt) or decision.reason != "loop_budget_exhausted":
        return None
    over = funds.stopping(found.keys, decision.detail)
    beside = "".join(f"; used up too, and asked about next: {b.words}" for b in funds.over_beside(found.keys, over))
    key = f"loop-{found.id}-{found.sequence}-loop-budget-exhausted"
    return Question(
        rule=AGENT_BUDGET,
        key=key,
        sequence=found.sequence,
        loop_id=found.id,
        detail=f"{decision.detail}{beside}",
        not_before=over.until or None,
        budget=over,
    )
