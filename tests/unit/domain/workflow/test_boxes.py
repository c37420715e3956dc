"""A tick changes one character of the author's file, and only while the rest is as approved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.workflow.compile import read_workflow, with_boxes
from tests.support.hotl import workflow

NAME = "hotl-workflow-rate.md"
TEXT = workflow("loop: false\nverify: pytest", "loop: false\nverify: true", "loop: false")
SOURCE = read_workflow(TEXT.encode(), NAME).source


@given(st.sets(st.integers(1, 4)), st.sets(st.integers(1, 3)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_boxes_are_as_the_log_has_it_and_nothing_else_changes(done: set[int], before: set[int], end: str):
    text = TEXT
    for number in before:
        text = text.replace(f"- [ ] **Step {number}:", f"- [X] **Step {number}:")
    text = text.replace("\n", end)
    found = with_boxes(text, SOURCE, done)
    assert found is not None
    changed = [at for at, (old, new) in enumerate(zip(text, found.text, strict=True)) if old != new]
    assert len(changed) == len(before ^ (done & {1, 2, 3}))
    assert set(found.set_back) == before - done
    for number in (1, 2, 3):
        assert (f"- [ ] **Step {number}:" in found.text) is (number not in done)


@pytest.mark.parametrize(
    ("old", "new"), [("pytest", "true"), ("Part 3", "Part three"), ("intent: Try it", "intent: No")]
)
def test_a_file_that_is_not_as_approved_is_left_alone(old: str, new: str):
    assert with_boxes(TEXT.replace(old, new), SOURCE, {1}) is None


def test_numbered_headings_have_no_box():
    text = TEXT.replace("- [ ] **Step 2: Part 2**", "### 2. Part 2")
    found = with_boxes(text, read_workflow(text.encode(), NAME).source, {1, 2})
    assert found is not None
    assert found.text == text.replace("- [ ] **Step 1", "- [x] **Step 1")
