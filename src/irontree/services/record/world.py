"""Everything the log and the plans say about a repository, read at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from irontree.app import App
from irontree.domain.decide import Scope
from irontree.domain.halt import HaltRule, halt_of
from irontree.domain.machine import Replay
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.spending import Spending
from irontree.domain.state import Phase, TaskState
from irontree.errors import LogDamaged, NotEligible
from irontree.ports import Problem

NOTHING_OVERSPENT: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class World:
    """States and nodes by task key. A node comes from the newest plan that lists it (ruling R7)."""

    states: Mapping[str, TaskState]
    plans: Mapping[str, Plan]
    """The plan in force, by task key."""
    nodes: Mapping[str, PlanNode]
    """As `approved`, but that nobody waits for what was cancelled (ruling R7)."""
    children: Mapping[str, tuple[str, ...]]
    replays: Mapping[int, Replay]
    approved: Mapping[str, PlanNode]
    cancelled: frozenset[str] = frozenset()
    """Keys that the last approval of their document left out before they were done: nobody works on them (R7)."""
    problems: tuple[Problem, ...] = ()
    spendings: Mapping[int, tuple[Spending, ...]] = field(default_factory=dict)
    """What agents took, by issue number; of the streams in force."""

    @property
    def known_issues(self) -> dict[int, str]:
        """The Task Keys that a `#N` may mean, by issue number."""
        return {state.issue_number: key for key, state in self.states.items()}

    @property
    def limited(self) -> bool:
        """Whether anything that agents spend has a limit; if not, nothing is counted."""
        return any(plan.policy.budgets for plan in self.plans.values())

    def state(self, issue_number: int) -> TaskState:
        """The state of that issue; raises NotEligible if the log does not know it."""
        found = self.replays.get(issue_number)
        if found is None or found.state is None:
            raise NotEligible(
                f"issue-{issue_number} is not known here: it has no readable events",
                remedy="`irontree status` lists the issues that are",
            )
        return found.state

    def node(self, state: TaskState) -> PlanNode:
        """What was approved for that issue; raises NotEligible if no plan lists it."""
        return self.plan(state).node(state.task_key)

    def plan(self, state: TaskState) -> Plan:
        """The plan in force for that issue; raises NotEligible if no plan lists it."""
        if state.task_key not in self.plans:
            raise NotEligible(
                f"issue-{state.issue_number} ({state.task_key}) is in no approved plan",
                remedy=state.way_to_plan,
            )
        return self.plans[state.task_key]

    def is_done(self, task_key: str) -> bool:
        """Whether that task has an issue, and it is done."""
        state = self.states.get(task_key)
        return state is not None and state.done

    def is_proven(self, task_key: str) -> bool:
        """Whether that task has completion evidence: it is done, or nothing but that is to be recorded."""
        state = self.states.get(task_key)
        return state is not None and state.phase in (Phase.VERIFIED, Phase.DONE)

    def halt_of(self, state: TaskState) -> HaltRule | None:
        """The rule that halts at this issue; None if it may go on, and for a task that was cancelled."""
        return None if state.task_key in self.cancelled else halt_of(state)

    def require_wanted(self, state: TaskState) -> None:
        """Raise NotEligible for a task that was cancelled."""
        if state.task_key in self.cancelled:
            raise NotEligible(
                f"issue-{state.issue_number} was cancelled: {self.plan(state).spec_path} was approved without it",
                remedy="put it back into the document and approve that",
            )

    def scope(
        self, keys: Iterable[str], budget_left: int = 1, overspent: Mapping[str, str] = NOTHING_OVERSPENT
    ) -> Scope:
        """What `decide` needs for these tasks, less the cancelled ones."""
        wanted = tuple(key for key in keys if key not in self.cancelled)
        return Scope(self.nodes, self.states, wanted, self.children, budget_left, overspent)


def read_world(app: App) -> World:
    """Replay every stream and read every plan; unreadable files become problems."""
    readings = app.replays.all()
    problems = tuple(problem for reading in readings.values() for problem in reading.problems)
    replays = {number: reading.replay for number, reading in readings.items()}
    plans, damaged = _plans(app)
    world = _world(replays, plans, (*problems, *_lost(replays), *damaged))
    return replace(world, spendings={number: reading.spendings for number, reading in readings.items()})


def state_of(app: App, issue_number: int) -> TaskState | None:
    """The state of one issue, without a look at the others; None if nothing of it can be read."""
    return app.log.read(issue_number).replayed().state


def _lost(replays: Mapping[int, Replay]) -> tuple[Problem, ...]:
    """Issues of which not even the first event can be read; they have no state to show a problem in."""
    return tuple(
        Problem(f".mino/events/issue-{number}", replay.problem or "its first event is missing: nothing is known of it")
        for number, replay in replays.items()
        if replay.state is None and (replay.problem or replay.missing)
    )


def _plans(app: App) -> tuple[tuple[Plan, ...], tuple[Problem, ...]]:
    """Plans by age, and those that cannot be read (ruling R13: never an exception that stops `status`)."""
    plans: list[Plan] = []
    problems: list[Problem] = []
    for revision in app.plans.revisions():
        try:
            plan = app.plans.load(revision)
        except LogDamaged as error:
            problems.append(Problem(f".mino/plans/{revision}.yml", error.message))
            continue
        plans += [plan] if plan else []
    return tuple(plans), tuple(problems)


def _world(replays: Mapping[int, Replay], plans: Iterable[Plan], problems: tuple[Problem, ...]) -> World:
    plans = tuple(plans)
    in_force = {node.task_key: (plan, node) for plan in plans for node in plan.nodes}
    states = {found.state.task_key: found.state for found in replays.values() if found.state}
    removed = _removed(plans, in_force)
    cancelled = frozenset(removed - {key for key, state in states.items() if state.done})
    children: dict[str, list[str]] = {}
    for key, (_, node) in in_force.items():
        if node.parent and key not in removed:
            children.setdefault(node.parent, []).append(key)
    approved = {key: node for key, (_, node) in in_force.items()}
    return World(
        states=states,
        plans={key: plan for key, (plan, _) in in_force.items()},
        nodes={key: _freed(node, cancelled) for key, node in approved.items()},
        approved=approved,
        children={key: tuple(keys) for key, keys in children.items()},
        replays=replays,
        cancelled=cancelled,
        problems=problems,
    )


def _freed(node: PlanNode, cancelled: frozenset[str]) -> PlanNode:
    """Nobody waits for a cancelled task (ruling R7); a kept one may still name it."""
    if cancelled.isdisjoint(node.depends_on):
        return node
    return node.model_copy(update={"depends_on": tuple(key for key in node.depends_on if key not in cancelled)})


def _removed(plans: Iterable[Plan], in_force: Mapping[str, tuple[Plan, PlanNode]]) -> set[str]:
    """Keys that their document's newest plan does not list any more."""
    newest = {plan.spec_path: plan for plan in plans}
    return {key for key, (plan, _) in in_force.items() if newest[plan.spec_path] is not plan}
