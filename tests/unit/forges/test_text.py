"""What becomes of a text before it is sent, and which text is a marker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.errors import RemoteFailed
from irontree.forges.markers import MISSES, as_kept, as_lines, behind, holds_one_of, one_line, require_fits, shortened

# Lone surrogates too: they come out of file names and broken JSON.
TEXT = st.text(st.characters(exclude_categories=()))


@given(TEXT)
def test_what_a_forge_keeps_it_keeps(text):
    kept = as_kept(text)
    assert as_kept(kept) == kept
    assert kept.encode("utf-8").decode("utf-8") == kept
    assert not {"\0", "\r"} & set(kept)


@given(TEXT)
def test_a_title_is_one_line_and_stays_so(text):
    assert one_line(one_line(text)) == one_line(text)
    assert "\n" not in one_line(text)


@given(TEXT, st.integers(1, 50))
def test_a_shortened_text_fits_and_says_that_it_was_cut(text, limit):
    line = shortened(text, limit)
    assert len(line) <= limit
    assert line == one_line(text) or line.endswith("\N{HORIZONTAL ELLIPSIS}")


@given(st.lists(st.text(), max_size=5), st.lists(st.text(), max_size=5))
def test_a_marker_counts_wherever_its_line_stands(before, after):
    marker = "<!-- irontree:task-key auth-login -->"
    assert holds_one_of(as_kept("\n".join([*before, f"  {marker}\t", *after])), as_lines([marker]))
    assert not holds_one_of(f"> {marker}", as_lines([marker]))


def test_what_does_not_fit_is_named_with_both_numbers():
    require_fits("x" * 10, 10, "the title")
    with pytest.raises(RemoteFailed, match=r"the title has 1,001 characters; the forge takes 1,000"):
        require_fits("x" * 1001, 1000, "the title")


@pytest.mark.parametrize(
    ("highest", "there", "found"),
    [
        (0, set(), []),
        (2, {1, 2, 3, 4}, [3, 4]),
        (2, {5, 8}, [5, 8]),
        (0, {4}, []),
    ],
)
def test_the_newest_are_asked_for_by_number_over_small_gaps(highest, there, found):
    """Deleted issues and discussions leave gaps; so many in a row are the end."""
    asked: list[int] = []

    def read(number: int) -> int | None:
        asked.append(number)
        return number if number in there else None

    assert list(behind(highest, read)) == found
    assert asked[-1] == max([highest, *found]) + MISSES
