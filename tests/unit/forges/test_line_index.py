"""The index of the lines of issues: what it finds is what reading every text would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from irontree.forges.markers import LineIndex, as_lines, holds_one_of

NUMBERS, LINES = st.integers(1, 5), st.sampled_from(["a", " a", "b", "a b", ""])
TEXTS = st.lists(LINES, max_size=3).map("\n".join)


@given(st.lists(st.tuples(NUMBERS, st.none() | TEXTS)), st.lists(LINES, max_size=2).map(as_lines))
def test_it_finds_what_reading_every_text_finds(steps, markers):
    index, texts = LineIndex(), {}
    for number, text in steps:
        if text is None:
            index.drop(number)
            texts.pop(number, None)
        else:
            index.put(number, text)
            texts[number] = text
    assert index.holding(markers) == sorted(number for number, text in texts.items() if holds_one_of(text, markers))
    assert index.highest == max((number for number, text in steps if text is not None), default=0)
