"""What changed since the last approval, line by line for a person (R7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.plan import Criterion, PlanNode
from irontree.domain.spec import changes_of

NODE = PlanNode(
    task_key="greeting",
    title="Greeting",
    criteria=(Criterion(text="it says hello", command="make hello"),),
    verification=("make test",),
    target_files=("greet.txt",),
    depends_on=("setup",),
    description="Say hello.",
)


def changed(**changes) -> tuple[str, ...]:
    return changes_of([NODE], [NODE.model_copy(update=changes)])


def test_nothing_changed_is_nothing_said():
    assert changes_of([NODE], [NODE]) == ()
    assert changed(line=7) == (), "where it stands in the document is no change"


def test_tasks_that_came_and_went_are_named_by_their_titles():
    other = NODE.model_copy(update={"task_key": "farewell", "title": "Farewell"})
    assert changes_of([NODE], [other]) == ("added: “Farewell”", "removed: “Greeting”")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"criteria": (*NODE.criteria, Criterion(text="it waves"))}, ["criterion added: it waves"]),
        (
            {"criteria": ()},
            ["criterion removed: it says hello", "command removed: make hello"],
        ),
        (
            {"verification": ("make all",)},
            ["command added: make all", "command removed: make test"],
        ),
        ({"target_files": ()}, ["target file removed: greet.txt"]),
        ({"depends_on": ("setup", "core")}, ["dependency added: core"]),
        ({"title": "Greet"}, ["title: Greet (was Greeting)"]),
        ({"priority": 1}, ["priority: 1 (was none)"]),
        ({"type": "bug"}, ["type: bug (was feature)"]),
        ({"description": "Shout."}, ["description: another text"]),
    ],
)
def test_each_kind_of_change_is_said(changes, said):
    title = changes.get("title", "Greeting")
    assert list(changed(**changes)) == [f"“{title}”, {line}" for line in said]


TEXTS = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=4)


@given(TEXTS, TEXTS)
def test_every_criterion_that_differs_is_said_once(before, now):
    def node(texts: list[str]) -> PlanNode:
        return NODE.model_copy(update={"criteria": tuple(Criterion(text=text) for text in texts)})

    said = changes_of([node(before)], [node(now)])
    assert len(said) == len(set(before) ^ set(now))
