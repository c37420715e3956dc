"""The Mermaid text shows the graph, and no title can change its meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.graph import Graph
from irontree.domain.pictures import mermaid
from irontree.domain.plan import PlanNode

LINE = re.compile(r'  (?:end|(?:subgraph )?[nx]?n?\d+\["[^"]*"\]|n\d+ -(?:-|\.-)> n\d+)')


def node(key, *depends_on, title=None, parent=None, line=None):
    return PlanNode(task_key=key, title=title or key, depends_on=depends_on, parent=parent, line=line)


def test_composites_are_boxes_and_arrows_lead_from_dependency_to_dependent():
    graph = Graph.of(
        [
            node("auth", title="Auth", line=1),
            node("core", title="Core", parent="auth", line=2),
            node("page", "auth", "core", "paint", title="Page", line=3),
        ]
    )
    assert mermaid(graph).splitlines() == [
        "flowchart TD",
        '  subgraph n0["Auth"]',
        '  n1["Core"]',
        "  end",
        '  n2["Page"]',
        '  n3["paint"]',
        "  n0 --> n2",
        "  n1 --> n2",
        "  n3 -.-> n2",
    ]


def test_labels_take_the_place_of_titles():
    graph = Graph.of([node("page", "paint")])
    text = mermaid(graph, {"page": "12: Page (done)", "paint": "7: Paint"})
    assert '["12: Page (done)"]' in text
    assert '["7: Paint"]' in text


def test_what_a_composite_waits_for_is_not_drawn_again_for_its_parts():
    graph = Graph.of([node("a"), node("b", "a"), node("c", "a", parent="b")])
    assert mermaid(graph).count("-->") == 1


@pytest.mark.parametrize(
    "title", ['"]; click n0 "javascript:alert(1)"', "`code`", "<img src=x>", "end", "#quot;", "%% gone", "a\nn9 --> n0"]
)
def test_a_hostile_title_is_text(title):
    drawn = mermaid(Graph.of([node("a", title=title)])).splitlines()
    assert len(drawn) == 2
    assert re.fullmatch(r'  n0\["(?:[\w .,:/()+=-]|#\d+;)*"\]', drawn[1])


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_every_line_is_one_of_the_four_forms_whatever_the_titles(titles):
    nodes = [
        node(f"t{i}", *([f"t{i - 1}"] if i else ["x"]), title=title, parent="t0" if i == 2 else None)
        for i, title in enumerate(titles)
    ]
    head, *lines = mermaid(Graph.of(nodes)).splitlines()
    assert head == "flowchart TD"
    assert all(LINE.fullmatch(line) for line in lines)


def test_ten_thousand_levels_are_drawn():
    nodes = [node(f"t{i}", parent=f"t{i - 1}" if i else None, line=i + 1) for i in range(10_000)]
    assert mermaid(Graph.of(nodes)).count("subgraph") == 9_999
