"""Which tests are tried on a fault, and what is said of the results."""

from __future__ import annotations

import json

import pytest

from tools.mutants import affordable, already_tried, rows, share

FAST, SLOW = ("fast", 0.1), ("slow", 50.0)


@pytest.mark.parametrize(
    ("tests", "limit", "chosen"),
    [([], 60, []), ([FAST, SLOW], 60, ["fast"]), ([FAST, SLOW], 100, ["fast", "slow"]), ([SLOW], 60, ["slow"])],
)
def test_as_many_tests_are_chosen_as_there_is_time_for(tests, limit, chosen):
    assert affordable(tests, limit) == chosen


@pytest.mark.parametrize(
    ("outcome", "tried"), [(None, 0), ("unclear", 0), ("survived", 2), ("caught", 5), ("timeout", 5), ("lost", 5)]
)
def test_what_survived_is_tried_with_the_tests_that_were_left_out(outcome, tried):
    assert already_tried(outcome and {"outcome": outcome, "tests": 2}, 5) == tried


def test_the_latest_result_counts_and_a_line_that_was_cut_off_is_none(tmp_path):
    told = [
        {"name": "a", "outcome": "survived"},
        {"name": "b", "outcome": "timeout"},
        {"name": "a", "outcome": "caught"},
    ]
    (tmp_path / "results").write_text("".join(json.dumps(row) + "\n" for row in told) + '{"name": "c", "outc')
    found = rows(tmp_path / "results")
    assert [row["outcome"] for row in found.values()] == ["caught", "timeout"]


def test_of_what_is_not_known_nothing_is_said():
    found = [{"outcome": outcome} for outcome in ("caught", "timeout", "survived", "survived", "unclear", "lost")]
    assert share(found).startswith("2 of 4 noticed (50.0 %)")
    assert share([]) == "none decided; "
