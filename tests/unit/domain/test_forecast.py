"""What a loop would do, without doing it."""

from __future__ import annotations

from dataclasses import replace

from irontree.domain.decide import Aggregate, Finalize, Halt, Run, Scope, Verify, as_published, forecast
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase

FIRST = PlanNode(task_key="first", title="First")
SECOND = PlanNode(task_key="second", title="Second", depends_on=("first",), parent="whole")
WHOLE = PlanNode(task_key="whole", title="Whole", shape="composite", executability="container")
NODES = {node.task_key: node for node in (FIRST, WHOLE, SECOND)}


def scope(budget: int = 50) -> Scope:
    states = {key: as_published(node, number) for number, (key, node) in enumerate(NODES.items(), start=1)}
    return Scope(NODES, states, tuple(NODES), {"whole": ("second",)}, budget)


def decisions(scope: Scope, judged: str = "") -> list:
    return [found.decision for found in forecast(scope, lambda key: key == judged)]


def test_the_way_to_the_goal_is_walked_in_the_order_of_the_decision_function():
    assert decisions(scope()) == [
        *(Run("first"), Verify("first"), Finalize("first")),
        *(Run("second"), Verify("second"), Finalize("second")),
        *(Aggregate("whole"), Finalize("whole")),
        Halt("goal_reached"),
    ]


def test_where_a_person_has_to_judge_the_walk_says_so_and_goes_on_as_if_it_was_accepted():
    assert decisions(scope(), judged="first")[:4] == [
        Run("first"),
        Verify("first"),
        Halt("pending_acceptance", "first"),
        Finalize("first"),
    ]


def test_the_walk_ends_where_a_person_has_to_put_something_right():
    blocked = scope()
    states = {**blocked.states, "first": replace(blocked.states["first"], phase=Phase.BLOCKED, blocking_check="dirty")}
    assert decisions(replace(blocked, states=states)) == [Halt("blocked", "first", "dirty")]


def test_the_walk_ends_with_the_budget():
    assert decisions(scope(budget=2)) == [Run("first"), Verify("first"), Halt("loop_budget_exhausted")]


def test_nothing_of_what_it_is_given_is_changed():
    given = scope()
    before = dict(given.states)
    list(forecast(given, lambda _: True))
    assert given.states == before
