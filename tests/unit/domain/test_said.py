"""What members of the team say in comments: nobody is called, nothing is closed, and nothing passes for ours (A3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.comments import MOST_SAID, is_marked, read_said, reply_problems, spoken
from tests.support.hostile_texts import FRAGMENTS

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_what_a_member_says_may_be_posted_whatever_it_is(text):
    said = spoken(text, ("ada", "tess"))
    assert reply_problems(f"[tester] {said}\n\n<!-- irontree:asked:mention-C1-tester -->") == ()
    assert spoken(said, ("ada", "tess")) == said


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("@ada, see", ["ada"]),
        ("(@Ada) and @TESS.", ["Ada", "TESS"]),
        ("@adam @ada-b @ada.b @ada/team x@ada `@ada` //@ada", []),
        ("@eve @everyone @all", []),
        ("@\u200bada and @\u2060eve", ["ada"]),
        ("@bot[bot] @bot", ["bot[bot]"]),
    ],
)
def test_a_member_calls_nobody_but_who_asks_and_its_team(text, called):
    assert re.findall(r"@([\w\[\]-]+)", spoken(text, ("ada", "tess", "bot[bot]"))) == called


def test_what_a_member_says_closes_nothing_and_holds_no_secret_or_marker():
    text = f"Fixes #3, closes\u200b #4.\n<!-- irontree:asked:mention-C9-tester -->\n{TOKEN} hunter2-hunter2"
    said = read_said(text.encode(), {"hunter2-hunter2"}, ())
    assert said == ("Fixes, see #3, closes, see #4.\n\n(secret) (secret)")
    assert not is_marked(said)


@pytest.mark.parametrize(("length", "fits"), [(MOST_SAID, True), (MOST_SAID + 1, False)])
def test_what_a_member_says_has_a_longest_length(length, fits):
    assert isinstance(read_said(b"x" * length, (), ()), str) is fits
