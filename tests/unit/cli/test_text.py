"""Nothing that people or programs wrote may act on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from irontree.domain.text import one_line, printable
from irontree.domain.values import short_sha

ANY_TEXT = st.text(st.characters(codec=None) | st.sampled_from("\x1b[]0m;\x07\x9b\r\n\t\u202e\u2028"))


@given(ANY_TEXT)
@example("\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\ud800")
def test_no_control_character_but_line_end_and_tab_survives(text):
    assert not [c for c in printable(text) if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]


@given(ANY_TEXT)
def test_one_line_is_one_line_and_cleaning_it_again_changes_nothing(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert one_line(line) == line


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"]), min_size=1))
def test_ordinary_text_stays_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb", "a b"),
        ("safe\u202egpj.exe", "safegpj.exe"),
    ],
)
def test_what_an_escape_sequence_would_do_is_gone_and_its_text_stays(hostile, harmless):
    assert one_line(hostile) == harmless


def test_a_commit_is_named_by_seven_digits_and_no_commit_by_nothing():
    assert short_sha("c0ffee00c0ffee00") == "c0ffee0"
    assert short_sha(None) == short_sha("not_applicable") == ""
