"""Check results: what counts as passed, and how much of an output people and events get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.checks import CheckReport, CheckResult, truncate

MARKER = "...(truncated)..."


def result(name="test", *, ended="exited", exit_code=0):
    return CheckResult(
        name=name, command=name, ended=ended, exit_code=exit_code, seconds=0.1, output="", output_digest="0" * 64
    )


def report(*results):
    return CheckReport(issue_number=7, anchor="c" * 40, commands_digest="d", results=results)


def test_a_report_that_an_earlier_version_wrote_is_read():
    """It said of each that it was complete."""
    known = report(result())
    assert CheckReport.model_validate(known.model_dump() | {"complete": True}) == known


def lines(count):
    return "\n".join(f"line {number}" for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("ended", "exit_code", "passed"),
    [
        ("exited", 0, True),
        ("exited", 1, False),
        ("exited", -9, False),
        ("exited", None, False),
        ("timeout", None, False),
        ("timeout", 0, False),
        ("cancelled", 0, False),
        ("not_started", 0, False),
    ],
)
def test_a_check_has_passed_only_if_it_ran_to_its_end_with_exit_code_zero(ended, exit_code, passed):
    assert result(ended=ended, exit_code=exit_code).passed is passed


def test_the_first_check_that_did_not_pass_is_the_one_that_failed():
    slow, red = result("slow", ended="timeout", exit_code=None), result("red", exit_code=1)
    assert report(result("green"), slow, red).failed == slow
    assert report(result("green"), red).failed == red
    assert report(result("green")).failed is None
    assert report().failed is None


@pytest.mark.parametrize("count", [0, 1, 50, 51, 69, 70])
def test_up_to_seventy_lines_are_kept_as_they_are(count):
    assert truncate(lines(count)) == lines(count)
    assert truncate(lines(count) + "\n") == lines(count) + "\n"


@pytest.mark.parametrize("count", [71, 72, 1000])
def test_of_more_lines_the_first_fifty_a_marker_and_the_last_twenty_are_kept(count):
    """TC-3.3, with 1000 lines: 1 to 50, the marker, 981 to 1000."""
    kept = truncate(lines(count)).split("\n")
    head = [f"line {number}" for number in range(1, 51)]
    tail = [f"line {number}" for number in range(count - 19, count + 1)]
    assert kept == [*head, MARKER, *tail]


def test_a_single_endless_line_is_cut_in_the_middle():
    kept = truncate("a" * 40_000 + "b" * 40_000)
    assert kept == "a" * 24 * 1024 + f"\n{MARKER}\n" + "b" * 12 * 1024


@pytest.mark.parametrize("letter", ["ä", "漢", "\N{GRINNING FACE}", "\ud800"])
def test_cutting_never_leaves_half_a_character(letter):
    kept = truncate(letter * 60_000)
    assert MARKER in kept
    assert set(kept.replace(MARKER, "")) <= {letter, "\n", "?"}


@given(st.text(max_size=300), st.integers(1, 400))
def test_what_is_kept_always_fits_into_an_event(text, times):
    kept = truncate(text * times)
    assert len(kept.encode(errors="replace")) <= 36 * 1024 + len(MARKER) + 2
    assert len(kept.splitlines()) <= 73
