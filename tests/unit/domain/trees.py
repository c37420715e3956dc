"""Work trees for tests: plan nodes and scopes built tersely, and a strategy for whole scopes in any condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from irontree.domain.decide import Scope
from irontree.domain.plan import PlanNode
from irontree.domain.state import Phase, TaskState
from tests.unit.domain.histories import PATHS, WITH_CODE, History, histories

Draw = Callable[[st.SearchStrategy[Any]], Any]


def node(key: str, *, needs: Iterable[str] = (), parent: str | None = None, container: bool = False) -> PlanNode:
    """A plan node with what decisions look at."""
    return PlanNode(
        task_key=key,
        title=key,
        depends_on=tuple(needs),
        parent=parent,
        shape="composite" if container else "atomic",
        executability="container" if container else "executable",
    )


def scope(
    nodes: Iterable[PlanNode],
    states: Iterable[TaskState],
    *,
    keys: Iterable[str] | None = None,
    budget: int = 10,
    go_on: Iterable[str] = (),
) -> Scope:
    """*nodes* and *states* are what is known; in scope is every node, unless *keys* says otherwise."""
    by_key = {known.task_key: known for known in nodes}
    children: dict[str, list[str]] = {}
    for key, known in by_key.items():
        if known.parent:
            children.setdefault(known.parent, []).append(key)
    return Scope(
        nodes=by_key,
        states={state.task_key: state for state in states},
        keys=tuple(by_key if keys is None else keys),
        children={parent: tuple(keys) for parent, keys in children.items()},
        budget_left=budget,
        go_on=frozenset(go_on),
    )


@st.composite
def trees(draw: Draw, *, most: int = 7, childless: bool = False) -> tuple[PlanNode, ...]:
    """Nodes of a plan: containers with parts at any depth, dependencies on earlier nodes that are no ancestors.

    As after intake, a part depends on all that its container depends on. Containers without parts, which intake
    refuses, only if asked for.
    """
    nodes: list[PlanNode] = []
    for number in range(draw(st.integers(1, most))):
        parents = [known.task_key for known in nodes if known.executability == "container"]
        parent = draw(st.sampled_from([None, *parents]))
        above = _ancestors(nodes, parent)
        possible = [known.task_key for known in nodes if known.task_key not in above]
        needs = draw(st.sets(st.sampled_from(possible), max_size=3)) if possible else set()
        needs |= {key for known in nodes if known.task_key == parent for key in known.depends_on}
        container = number < most - 1 and draw(st.integers(0, 3)) == 0
        nodes.append(node(f"t-{number}", needs=sorted(needs), parent=parent, container=container))
    parents = {known.parent for known in nodes} | ({known.task_key for known in nodes} if childless else set())
    return tuple(known if known.task_key in parents else _atomic(known) for known in nodes)


def _atomic(known: PlanNode) -> PlanNode:
    return node(known.task_key, needs=known.depends_on, parent=known.parent)


def _ancestors(nodes: list[PlanNode], key: str | None) -> set[str]:
    by_key = {known.task_key: known for known in nodes}
    found = set()
    while key:
        found.add(key)
        key = by_key[key].parent
    return found


_DONE, _READY = PATHS[Phase.DONE], PATHS[Phase.READY]
_QUIET = (*[_DONE] * 3, _READY)
_CALM = (
    *_QUIET,
    *_QUIET,
    PATHS[Phase.COMMITTED],
    PATHS[Phase.VERIFIED],
    (*PATHS[Phase.COMMITTED], "verify_failed_retryable"),
    (*PATHS[Phase.COMMITTED], "verify_publication_failed"),
    ("task_published", "run_started", "run_interrupted"),
    ("task_published", "run_started", WITH_CODE, "checkup_preflight_blocked", "checkup_unblocked"),
)
_CONTAINERS = (
    *[PATHS[Phase.CONTAINER]] * 4,
    (*PATHS[Phase.CONTAINER], "checkup_aggregate_recorded"),
    (*PATHS[Phase.CONTAINER], "checkup_aggregate_recorded", "checkup_done"),
)


@st.composite
def scopes(draw: Draw) -> Scope:
    """A tree, some of it published, some of it in scope, in any mixture of conditions, with budget or not.

    Half of them have `loop.on_halt: go_on` for all tasks, some for every second one.
    """
    nodes = draw(trees(childless=True))
    mood = draw(st.sampled_from([_QUIET, _CALM, None]))
    states = [state for number, known in enumerate(nodes, start=1) if (state := _condition(draw, known, number, mood))]
    keys = [known.task_key for known in nodes if draw(st.integers(0, 4))]
    forgotten = draw(st.sampled_from([None, None, None, *(known.task_key for known in nodes)]))
    known = [known for known in nodes if known.task_key != forgotten]
    go_on = keys if draw(st.booleans()) else draw(st.sampled_from([(), keys[::2]]))
    return scope(known, states, keys=keys, budget=draw(st.integers(-1, 3)), go_on=go_on)


def _condition(draw: Draw, known: PlanNode, number: int, mood: tuple[Any, ...] | None) -> TaskState | None:
    """The state of one node: of the scope's mood, or, without one, anything at all; None if unpublished."""
    kind = draw(st.sampled_from(["unpublished", "random", "damaged", "any", "any"])) if mood is None else "usual"
    if kind == "unpublished":
        return None
    usual = _CONTAINERS if known.executability == "container" else mood or _CALM
    paths = usual if kind in {"usual", "damaged"} else tuple(PATHS.values())
    history = draw(histories(most=12)) if kind == "random" else History().then(*draw(st.sampled_from(paths)))
    return replace(
        history.now,
        task_key=known.task_key,
        issue_number=number,
        sequence=draw(st.integers(1, 5)),
        problem="sequence 2 is missing" if kind == "damaged" else None,
    )
