"""The work graph orders, releases and cancels exactly what its nodes say, whatever its size and form."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.graph import Graph
from irontree.domain.plan import PlanNode
from irontree.errors import LogDamaged
from tests.support.graphs import all_children_done, eligible


def node(key, *depends_on, parent=None, line=None, container=False):
    return PlanNode(
        task_key=key,
        title=key.title(),
        depends_on=depends_on,
        parent=parent,
        line=line,
        shape="composite" if container else "atomic",
        executability="container" if container else "executable",
    )


@pytest.fixture
def shop():
    """Accounts (sign-up, log-in), reports that wait for the accounts, and a page on its own."""
    return Graph.of(
        [
            node("accounts", line=1, container=True),
            node("sign-up", parent="accounts", line=2),
            node("log-in", "sign-up", parent="accounts", line=3),
            node("reports", "accounts", line=4, container=True),
            node("weekly", "accounts", parent="reports", line=5),
            node("mail", "weekly", line=6),
            node("page", line=7),
        ]
    )


@st.composite
def plans(draw, acyclic=True):
    """Nodes with parents and dependencies; acyclic ones depend on earlier leaves and composites that are over."""
    size = draw(st.integers(0, 14))
    nodes = []
    for index in range(size):
        parent = draw(st.none() | st.sampled_from([f"t{i}" for i in range(index)])) if index else None
        pool = [f"t{i}" for i in range(index if acyclic else size)]
        depends_on = draw(st.lists(st.sampled_from(pool), unique=True, max_size=3)) if pool else []
        nodes.append(node(f"t{index}", *depends_on, parent=parent, line=draw(st.none() | st.integers(1, 20))))
    containers = {made.parent for made in nodes}
    return [
        made.model_copy(update={"executability": "container", "shape": "composite"})
        if made.task_key in containers
        else made
        for made in nodes
    ]


def work_edges(nodes):
    """The rules in their plainest form: start after dependencies' ends and parent's start, end after the parts."""
    edges = {}
    for made in nodes:
        start, end = ("start", made.task_key), ("end", made.task_key)
        parent = {("start", made.parent)} if made.parent else set()
        edges[start] = {("end", needed) for needed in made.depends_on} | parent
        edges[end] = {start, *(("end", other.task_key) for other in nodes if other.parent == made.task_key)}
    return edges


def is_cyclic(nodes):
    try:
        TopologicalSorter(work_edges(nodes)).prepare()
    except CycleError:
        return True
    return False


@given(plans(acyclic=False))
def test_cycles_are_found_exactly_where_nodes_wait_for_each_other(nodes):
    assert bool(Graph.of(nodes).cycles) == is_cyclic(nodes)


@given(plans(acyclic=False))
def test_every_node_of_a_cycle_waits_for_the_next(nodes):
    by_key = {made.task_key: made for made in nodes}
    for cycle in Graph.of(nodes).cycles:
        for key, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            waits_for = {by_key[key].parent, *by_key[key].depends_on}
            assert following in waits_for or by_key[following].parent == key


@given(plans(acyclic=False))
def test_the_order_has_every_node_once_even_with_cycles(nodes):
    assert sorted(Graph.of(nodes).order) == sorted(made.task_key for made in nodes)


def parts_of(graph: Graph, key: str) -> set[str]:
    return {part for child in graph.children(key) for part in (child, *parts_of(graph, child))}


@given(plans().filter(lambda nodes: not is_cyclic(nodes)))
def test_a_node_is_ordered_behind_its_parent_its_dependencies_and_all_their_parts(nodes):
    graph = Graph.of(nodes)
    place = {key: position for position, key in enumerate(graph.order)}
    for made in nodes:
        if made.parent:
            assert place[made.parent] < place[made.task_key]
        for needed in made.depends_on:
            assert all(place[part] < place[made.task_key] for part in (needed, *parts_of(graph, needed)))


@given(st.data(), plans(acyclic=False))
def test_the_graph_does_not_depend_on_the_order_of_the_nodes_given(data, nodes):
    shuffled = data.draw(st.permutations(nodes))
    assert Graph.of(shuffled).order == Graph.of(nodes).order
    assert Graph.of(shuffled).cycles == Graph.of(nodes).cycles


def test_nodes_without_edges_keep_document_order_and_then_that_of_their_keys():
    graph = Graph.of([node("z"), node("b", line=9), node("c", line=2), node("y"), node("a", line=9)])
    assert graph.order == ("c", "a", "b", "y", "z")


def test_a_ready_node_is_not_put_off_by_a_later_one(shop):
    assert shop.order == ("accounts", "sign-up", "log-in", "reports", "weekly", "mail", "page")


def test_relatives_are_told_in_order(shop):
    assert shop.children("accounts") == ("sign-up", "log-in")
    assert shop.children("page") == ()
    assert shop.ancestors("log-in") == ("accounts",)
    assert shop.ancestors("accounts") == ()


def test_ancestors_reach_all_levels():
    nodes = [node("a", line=1), node("b", parent="a", line=2), node("c", parent="b", line=3)]
    graph = Graph.of(nodes)
    assert graph.ancestors("c") == ("b", "a")


def test_only_executable_nodes_with_all_dependencies_done_are_eligible(shop):
    assert eligible(shop, set()) == ("sign-up", "page")
    assert eligible(shop, {"sign-up"}) == ("log-in", "page")
    assert eligible(shop, {"sign-up", "log-in"}) == ("page",), "the composite itself is not done yet"
    assert eligible(shop, {"sign-up", "log-in", "accounts", "page"}) == ("weekly",)


def test_a_dependency_outside_the_graph_holds_a_node_until_it_is_done():
    graph = Graph.of([node("a", "elsewhere", "b"), node("b")])
    assert graph.outside("a") == ("elsewhere",)
    assert graph.outside("b") == ()
    assert eligible(graph, {"b"}) == ()
    assert eligible(graph, {"b", "elsewhere"}) == ("a",)


def test_a_parent_outside_the_graph_is_no_ancestor():
    graph = Graph.of([node("a", parent="elsewhere")])
    assert graph.ancestors("a") == ()
    assert graph.cascade("a") == ("a",)


def test_skipping_a_part_cancels_its_composites_and_what_waits_for_them_but_not_its_siblings(shop):
    assert shop.cascade("log-in") == ("accounts", "log-in", "reports", "weekly", "mail")


def test_skipping_a_composite_cancels_its_parts_and_their_dependents(shop):
    assert shop.cascade("reports") == ("reports", "weekly", "mail")
    assert shop.cascade("page") == ("page",)


def test_a_composite_that_is_cancelled_for_a_part_loses_its_other_parts_if_it_is_also_cancelled_as_a_whole():
    """The first part's skip reaches the composite from below, then through what the composite depends on."""
    graph = Graph.of([node("c", "d"), node("a", parent="c"), node("b", parent="c"), node("d", "a")])
    assert set(graph.cascade("a")) == {"a", "b", "c", "d"}


def naive_cascade(nodes, key):
    cancelled, whole = {key}, {key}
    while True:
        before = (len(cancelled), len(whole))
        for made in nodes:
            if set(made.depends_on) & cancelled or made.parent in whole:
                cancelled.add(made.task_key)
                whole.add(made.task_key)
            if made.task_key in cancelled and made.parent:
                cancelled.add(made.parent)
        if before == (len(cancelled), len(whole)):
            return cancelled


@given(st.data(), plans(acyclic=False).filter(bool))
def test_a_skip_cancels_the_smallest_set_that_the_rules_allow(data, nodes):
    key = data.draw(st.sampled_from(nodes)).task_key
    cancelled = Graph.of(nodes).cascade(key)
    assert set(cancelled) == naive_cascade(nodes, key)
    assert len(cancelled) == len(set(cancelled))


@given(plans().filter(lambda nodes: not is_cyclic(nodes)))
def test_working_through_what_is_eligible_and_completing_composites_finishes_every_plan(nodes):
    graph = Graph.of(nodes)
    done = set()
    for _ in range(2 * len(nodes) + 1):
        done |= set(eligible(graph, done))
        done |= {key for key in graph.order if all_children_done(graph, key, done)}
    assert done == set(graph.order)


def test_two_nodes_with_one_key_are_refused_by_name():
    with pytest.raises(LogDamaged, match="two tasks have the key a: 'A' and 'A'"):
        Graph.of([node("a", line=1), node("a", line=2)])


def test_a_node_that_is_its_own_parent_is_a_cycle_and_no_endless_loop():
    graph = Graph.of([node("a", parent="a")])
    assert graph.cycles == (("a",),)
    assert graph.ancestors("a") == ("a",)
    assert graph.cascade("a") == ("a",)


SIZE = 10_000
CHAIN = [node(f"t{i}", *([f"t{i - 1}"] if i else []), line=i + 1) for i in range(SIZE)]
NEST = [node(f"t{i}", parent=f"t{i - 1}" if i else None, line=i + 1) for i in range(SIZE)]
RING = [node(f"t{i}", f"t{(i + 1) % SIZE}", line=i + 1) for i in range(SIZE)]


def test_a_chain_of_ten_thousand_needs_no_deep_stack():
    graph = Graph.of(CHAIN)
    assert graph.order[-1] == f"t{SIZE - 1}"
    assert len(graph.cascade("t0")) == SIZE


def test_ten_thousand_levels_need_no_deep_stack():
    graph = Graph.of(NEST)
    assert len(graph.ancestors(f"t{SIZE - 1}")) == SIZE - 1
    assert len(graph.cascade(f"t{SIZE - 1}")) == SIZE


def test_a_ring_of_ten_thousand_is_one_cycle():
    assert [len(cycle) for cycle in Graph.of(RING).cycles] == [SIZE]
