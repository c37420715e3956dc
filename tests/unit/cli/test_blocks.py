"""Blocks as plain text, and drawn on a terminal."""

from __future__ import annotations

import io
import re

import pytest

from irontree.cli.drawing import draw
from irontree.cli.output import Cell, Table, TextLines, Verbatim, plain

HOSTILE = "\x1b[2J\x1b]0;owned\x07Title\x9b31m\nsecond line\u202e"
TREE = Table(
    ("ISSUE", "STATE", "TITLE"),
    (
        ("#1", Cell("waiting for its children", "asks"), "Parent"),
        ("#12", Cell("", "faint"), "  A child with a title that does not fit on a narrow terminal"),
    ),
)


def drawn(*blocks, width=80, encoding="utf-8") -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    draw(blocks, out, width=width, force=True)
    out.flush()
    return raw.getvalue().decode(encoding)


def test_plain_columns_are_aligned_and_empty_cells_are_marked():
    assert list(plain([TREE])) == [
        "ISSUE  STATE                     TITLE",
        "#1     waiting for its children  Parent",
        "#12    -                           A child with a title that does not fit on a narrow terminal",
    ]


def test_plain_blocks_are_apart_by_one_empty_line_and_titles_end_in_a_colon():
    text = list(
        plain(
            [TextLines(("one",)), TextLines(("two", Cell("  three")), title="More"), Verbatim("a\nb\n", title="Diff")]
        )
    )
    assert text == ["one", "", "More:", "  two", "    three", "", "Diff:", "  a", "  b"]


def test_plain_text_has_no_colour_and_no_box_drawing():
    text = "\n".join(plain([TREE, TextLines(("x",), title="framed", framed=True)]))
    assert text.isascii()


@pytest.mark.parametrize("width", [30, 80])
@pytest.mark.parametrize(
    "block",
    [
        Table(("A", "B"), ((HOSTILE, HOSTILE),), title=HOSTILE),
        TextLines((HOSTILE, Cell(HOSTILE, "bad")), title=HOSTILE, framed=True),
        Verbatim(HOSTILE, title=HOSTILE, language="diff"),
    ],
)
def test_nothing_hostile_reaches_a_terminal_raw(block, width):
    for text in ("\n".join(plain([block])), drawn(block, width=width)):
        assert not [hostile for hostile in ("\x1b[2J", "\x1b]0", "\x9b", "\u202e", "\x07") if hostile in text]
        assert "Title" in text


def test_a_wide_terminal_gets_columns():
    lines = drawn(TREE, width=100).splitlines()
    assert "ISSUE" in lines[0]
    assert "TITLE" in lines[0]


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
@pytest.mark.parametrize("width", [24, 40, 59, 60, 80])
def test_no_line_is_wider_than_the_terminal_however_narrow(width, terminal, monkeypatch):
    monkeypatch.setenv("TERM", terminal)
    question = TextLines(("x" * 200,), title="T" * 90, framed=True)
    lines = re.sub(r"\x1b\[[\d;]*m", "", drawn(TREE, question, width=width)).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn(TREE)


def test_a_terminal_without_unicode_gets_boxes_it_can_show():
    text = drawn(TextLines(("→ x",), title="T", framed=True), TREE, encoding="ascii")
    assert "+" in text
    assert "? x" in text


@pytest.mark.parametrize(
    ("headings", "names", "lines"),
    [
        (("", "LOOKED AT", "FOUND"), (0, 1), ["good git", "   2.39 and so on, more than fits"]),
        (("COVERED BY", "WHAT"), (1,), ["2.39 and so on, more than fits", "   a command that is long too"]),
        (("TIME", "WHAT"), (), ["a command that is long too", "   2.39 and so on, more than fits"]),
    ],
)
def test_where_it_is_told_row_by_row_what_a_row_is_about_comes_before_its_value(headings, names, lines):
    row = ("good", "git") if len(headings) > 2 else ("a command that is long too",)
    told = Table(headings, ((*row, "2.39 and so on, more than fits"),), names=names)
    assert [line.rstrip() for line in drawn(told, width=34).splitlines()] == lines


def test_a_table_whose_last_column_would_have_no_room_is_told_row_by_row():
    table = Table(("COVERED BY", "CRITERION"), (("python3 -m fairshare summary", "It works for the trip to Lisbon"),))
    assert "COVERED BY" in drawn(table, width=80)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in drawn(table, width=40).splitlines()]
    assert lines == ["python3 -m fairshare summary", "   It works for the trip to Lisbon"]
