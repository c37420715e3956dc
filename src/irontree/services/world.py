"""Everything the log and the plans say about a repository, read at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from irontree.app import App
from irontree.domain.decide import Scope
from irontree.domain.evolve import Replay
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.state import TaskState
from irontree.errors import LogDamaged, NotEligible
from irontree.ports import Problem


@dataclass(frozen=True, slots=True)
class World:
    """States and nodes by task key. A node comes from the newest plan that lists it (ruling R7)."""

    states: Mapping[str, TaskState]
    plans: Mapping[str, Plan]
    """The plan in force, by task key."""
    nodes: Mapping[str, PlanNode]
    children: Mapping[str, tuple[str, ...]]
    replays: Mapping[int, Replay]
    problems: tuple[Problem, ...] = ()

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
                remedy="approve its document again: `irontree task SPEC.md`",
            )
        return self.plans[state.task_key]

    def scope(self, keys: Iterable[str], budget_left: int = 1) -> Scope:
        """What `decide` needs for these tasks."""
        return Scope(self.nodes, self.states, tuple(keys), self.children, budget_left)


def read_world(app: App) -> World:
    """Replay every stream and read every plan; unreadable files become problems."""
    readings = app.replays.all()
    problems = tuple(problem for reading in readings.values() for problem in reading.problems)
    replays = {number: reading.replay for number, reading in readings.items()}
    plans, damaged = _plans(app)
    return _world(replays, plans, (*problems, *_lost(replays), *damaged))


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
    in_force = {node.task_key: (plan, node) for plan in plans for node in plan.nodes}
    children: dict[str, list[str]] = {}
    for key, (_, node) in in_force.items():
        if node.parent:
            children.setdefault(node.parent, []).append(key)
    return World(
        states={found.state.task_key: found.state for found in replays.values() if found.state},
        plans={key: plan for key, (plan, _) in in_force.items()},
        nodes={key: node for key, (_, node) in in_force.items()},
        children={key: tuple(keys) for key, keys in children.items()},
        replays=replays,
        problems=problems,
    )
