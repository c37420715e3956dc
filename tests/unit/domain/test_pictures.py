"""DOT and SVG show the same graph, and no title can change their meaning."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from irontree.domain.graph import Graph
from irontree.domain.pictures import BOX_HEIGHT, BOX_WIDTH, NodeLook, dot, svg
from irontree.domain.plan import PlanNode

SVG = "{http://www.w3.org/2000/svg}"


def node(key, *depends_on, title=None, parent=None, line=None):
    return PlanNode(task_key=key, title=title or key, depends_on=depends_on, parent=parent, line=line)


DIAMOND = Graph.of(
    [
        node("base", line=1),
        node("parts", "base", line=2),
        node("left", "base", parent="parts", line=3),
        node("right", "base", parent="parts", line=4),
        node("close", "left", "right", "paint", line=5),
    ]
)


def boxes(picture: str) -> dict[str, int]:
    """Left edge by label."""
    found = ET.fromstring(picture).iter(f"{SVG}g")
    return {group.find(f"{SVG}title").text: int(group.find(f"{SVG}rect").get("x")) for group in found}


def test_dot_has_an_arrow_for_each_dependency_and_a_dashed_one_for_each_part():
    assert dot(DIAMOND, {}).splitlines()[3:] == [
        '  n0 [label="paint", fillcolor="#f6f8fa", color="#57606a"];',
        '  n1 [label="base", fillcolor="#f6f8fa", color="#57606a"];',
        '  n2 [label="parts", fillcolor="#f6f8fa", color="#57606a"];',
        '  n3 [label="left", fillcolor="#f6f8fa", color="#57606a"];',
        '  n4 [label="right", fillcolor="#f6f8fa", color="#57606a"];',
        '  n5 [label="close", fillcolor="#f6f8fa", color="#57606a"];',
        "  n3 -> n2 [style=dashed];",
        "  n4 -> n2 [style=dashed];",
        "  n1 -> n3;",
        "  n1 -> n4;",
        "  n3 -> n5;",
        "  n4 -> n5;",
        "  n0 -> n5;",
        "}",
    ]


def test_every_box_of_the_picture_is_right_of_what_it_needs():
    left = boxes(svg(DIAMOND, {}))
    assert left.keys() == {"paint", "base", "parts", "left", "right", "close"}
    for needed, needing in (("base", "left"), ("left", "parts"), ("right", "close"), ("paint", "close")):
        assert left[needed] + BOX_WIDTH < left[needing]


def test_the_picture_has_an_arrow_for_each_line_of_the_graph():
    arrows = list(ET.fromstring(svg(DIAMOND, {})).iter(f"{SVG}path"))
    assert len([arrow for arrow in arrows if arrow.get("marker-end")]) == dot(DIAMOND, {}).count("->")


def test_a_long_arrow_runs_behind_no_box():
    picture = ET.fromstring(svg(DIAMOND, {}))
    rows = {
        int(box.get("y")) for box in picture.iter(f"{SVG}rect") if int(box.get("x")) == boxes(svg(DIAMOND, {}))["left"]
    }
    [long] = [arrow.get("d") for arrow in picture.iter(f"{SVG}path") if arrow.get("d").count("C") == 2]
    height = int(long.split("C")[1].split()[-1].partition("H")[0])
    assert not any(y <= height <= y + BOX_HEIGHT for y in rows)


def test_boxes_do_not_overlap():
    graph = Graph.of([node("a", line=1), *(node(f"n{number}", "a", line=number + 2) for number in range(20))])
    rectangles = [
        (int(box.get("x")), int(box.get("y")), int(box.get("height")))
        for box in ET.fromstring(svg(graph, {})).iter(f"{SVG}rect")
    ]
    column = sorted(y for x, y, _ in rectangles if x == max(x for x, _, _ in rectangles))
    assert len(column) == 20
    assert all(lower - upper > rectangles[0][2] for upper, lower in itertools.pairwise(column))


def test_a_look_gives_label_and_colour():
    looks = {"base": NodeLook("#1 Base: done", "done")}
    assert 'label="#1 Base: done", fillcolor="#e6f4ea"' in dot(DIAMOND, looks)
    assert "#1 Base: done" in boxes(svg(DIAMOND, looks))


def test_a_long_label_is_cut_in_the_box_and_whole_in_the_tooltip():
    title = "A title that is much longer than any box is wide"
    picture = svg(Graph.of([node("a", title=title)]), {})
    assert title in boxes(picture)
    assert next(ET.fromstring(picture).iter(f"{SVG}text")).text.endswith("…")


@pytest.mark.parametrize(
    "title", ['"]; evil [label="x', "</title><script>alert(1)</script>", "a\nb", "\\", "&amp;", "\x1b[2J\u202e"]
)
def test_a_hostile_title_is_text(title):
    graph = Graph.of([node("a", title=title)])
    [line] = [line for line in dot(graph, {}).splitlines() if "n0" in line]
    assert re.fullmatch(r'  n0 \[label="(?:[^"\\]|\\.)*", fillcolor="#f6f8fa", color="#57606a"\];', line)
    root = ET.fromstring(svg(graph, {}))
    assert [child.tag for child in root.iter() if "script" in child.tag] == []


def test_an_empty_graph_is_an_empty_picture():
    assert boxes(svg(Graph.of([]), {})) == {}
    assert "->" not in dot(Graph.of([]), {})
