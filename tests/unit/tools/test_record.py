"""The recording of a terminal: what it shows of what was written, and how it is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tools.record import LAST, READING, Picture, Span, pictures, svg

HERE = ("/tmp/rec-ada-1", "/home/ada/code")


def shown(*written: tuple[float, str]) -> list[tuple[str, float]]:
    """The pictures after the command was typed: their last lines, and for how long."""
    film = pictures([(at, text.encode()) for at, text in written], renamed=HERE)
    typed = [picture for picture in film if not (picture.rows and picture.rows[0][0].text.startswith("$ "))]
    return [
        ("".join(span.text for span in picture.rows[-1]) if picture.rows else "", picture.seconds) for picture in typed
    ]


def test_waits_are_shortened_and_what_is_only_glimpsed_is_left_out():
    assert shown((0, "begins\r\n"), (9, "goes on\r\n"), (9.1, "spins"), (9.2, "\rturns"), (10, "\rends \r\n")) == [
        ("begins", 1.2),
        ("turns", 1.0),
        ("ends", LAST),
    ]


def test_a_question_stays_to_be_read():
    assert shown((0, "Approve? [yes/no] "), (1, "yes"))[0] == ("Approve? [yes/no]", READING)


def test_the_folder_has_another_name():
    assert shown((0, "in /tmp/rec-ada-1/x"))[0][0] == "in /home/ada/code/x"


def test_each_row_is_drawn_once_and_text_is_no_markup():
    row = (Span("a < b & c", "default", False), Span("  ", "red", False), Span("bold", "green", True))
    root = ET.fromstring(svg([Picture((row,), 1), Picture((row, ()), 2)]))
    space = "{http://www.w3.org/2000/svg}"
    texts = [(text.text, text.get("class"), text.get("style")) for text in root.iter(f"{space}text")]
    assert texts == [("a < b & c", None, None), ("bold", "b", "fill:#57d364")]
    assert len(list(root.iter(f"{space}use"))) == 2
    assert "33.333%" in (root.findtext(f"{space}style") or "")
