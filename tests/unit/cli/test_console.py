"""Data on stdout, all else on stderr; JSON when asked for."""

from __future__ import annotations

import io
import json

import pytest

from irontree.cli.console import Console, open_console
from irontree.cli.output import TextLines
from irontree.errors import IrontreeError, NotEligible, RequirementsRefused


def streams(**settings) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(out, err, **settings), out, err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_same_values_are_json_or_text():
    console, out, _ = streams(json=True)
    console.show(lambda: {"a": [1]}, [TextLines(("one",))])
    assert json.loads(out.getvalue()) == {"a": [1]}
    console, out, _ = streams()
    console.show(lambda: {"a": [1]}, [TextLines(("one",))])
    assert out.getvalue() == "one\n"


def test_json_is_ascii_so_that_any_stream_can_carry_it():
    console, out, _ = streams(json=True)
    console.show(lambda: {"title": "Größe \x9b\u202e"}, [])
    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == {"title": "Größe \x9b\u202e"}


def test_an_error_says_what_happened_and_what_to_do():
    console, out, err = streams()
    console.refused(NotEligible("issue-3 is done", remedy="`irontree status`"))
    assert err.getvalue() == "irontree: issue-3 is done\n  -> `irontree status`\n"
    assert out.getvalue() == ""


def test_an_error_without_remedy_has_no_arrow():
    console, _, err = streams()
    console.refused(IrontreeError("stopped"))
    assert err.getvalue() == "irontree: stopped\n"


def test_an_error_is_json_on_stderr_when_json_was_asked_for():
    console, out, err = streams(json=True)
    console.refused(RequirementsRefused(("S.md:3: a", "S.md:9: b")))
    assert json.loads(err.getvalue()) == {
        "error": {
            "kind": "requirements_refused",
            "message": "S.md:3: a\nS.md:9: b",
            "remedy": None,
            "problems": ["S.md:3: a", "S.md:9: b"],
        }
    }
    assert out.getvalue() == ""


def test_every_problem_of_a_document_has_its_line():
    console, _, err = streams()
    console.refused(RequirementsRefused(("S.md:3: a", "S.md:9: b")))
    assert err.getvalue().splitlines() == ["irontree: S.md:3: a", "S.md:9: b"]


def test_notes_go_to_stderr_and_are_silent_with_json():
    console, out, err = streams()
    console.note("\x1b[2Jworking\nhard")
    assert (out.getvalue(), err.getvalue()) == ("", "working\nhard\n")
    console, _, err = streams(json=True)
    console.note("working")
    assert err.getvalue() == ""


def test_notes_are_faint_on_a_terminal_unless_colour_is_off():
    console = open_console(Terminal(), Terminal(), {"TERM": "xterm"}, json=False)
    assert (console.draws, console.faint_notes) == (True, True)
    console = open_console(Terminal(), Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, json=False)
    assert (console.draws, console.faint_notes) == (True, False)


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}])
def test_a_dumb_terminal_gets_plain_text(environment):
    console = open_console(Terminal(), Terminal(), environment, json=False)
    assert (console.draws, console.faint_notes) == (False, False)


def test_work_goes_on_when_nobody_reads_its_notes_any_more():
    err = io.StringIO()
    err.close()
    Console(io.StringIO(), err).note("working")


def test_what_a_stream_cannot_encode_becomes_a_mark():
    raw = io.BytesIO()
    console = open_console(io.TextIOWrapper(raw, encoding="ascii"), io.StringIO(), {}, json=False)
    console.show(dict, [TextLines(("Größe \ud800",))])
    console.flush()
    assert raw.getvalue() == b"Gr??e\n"


def test_both_streams_in_one_file_are_in_the_order_in_which_they_were_written():
    raw = io.BytesIO()
    console = open_console(io.TextIOWrapper(raw), io.TextIOWrapper(raw), {}, json=False)
    console.write("the plan\n")
    console.note("working")
    console.write("done\n")
    assert raw.getvalue() == b"the plan\nworking\ndone\n"
