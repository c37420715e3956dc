"""The parts of an issue's text between our markers, and everything outside of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.issues import BEGIN, END, regions, with_regions, without_regions

TEXT = st.text(st.sampled_from("ab -[x]\n<!>"), max_size=30)


def body(before: str, inner: str, after: str) -> str:
    return f"{before}\n{BEGIN}\n{inner}\n{END}\n{after}"


@given(TEXT, TEXT, TEXT, TEXT)
def test_only_what_stands_between_the_markers_is_changed(before: str, old: str, new: str, after: str):
    changed = with_regions(body(before, old, after), body("x", new, "y"))
    assert changed == body(before, new, after)
    assert regions(changed) == (new.strip(),)
    assert without_regions(changed) == without_regions(body(before, old, after))


def test_line_ends_of_a_browser_are_no_difference():
    assert regions(body("a", "- [ ] one\n- [x] two", "b").replace("\n", "\r\n")) == ("- [ ] one\n- [x] two",)


@pytest.mark.parametrize(
    "found",
    ["no marker", f"{BEGIN}\nnever ends", f"{END}\n{BEGIN}", body("a", "b", body("c", "d", "e"))],
)
def test_a_text_with_other_markers_is_left_alone(found: str):
    assert with_regions(found, body("x", "new", "y")) is None


def test_a_marker_that_was_taken_out_is_an_edit():
    assert without_regions("a\nb") != without_regions(body("a", "x", "b"))
