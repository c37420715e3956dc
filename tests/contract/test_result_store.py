"""What every ResultStore keeps, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.domain.checks import CheckReport, CheckResult
from irontree.store.documents import FileResultStore
from irontree.store.layout import create
from irontree.store.memory import MemoryResultStore
from tests.support.store import SHA


@pytest.fixture(params=["disk", "memory"])
def results(request, tmp_path):
    if request.param == "memory":
        return MemoryResultStore()
    create(tmp_path)
    return FileResultStore(tmp_path)


def report(**changes) -> CheckReport:
    passed = CheckResult(
        name="tests",
        command="pytest -q",
        ended="exited",
        exit_code=0,
        seconds=1.25,
        output="....\n4 passed\n",
        output_digest="0" * 64,
    )
    cut_off = CheckResult(
        name="lint",
        command="make lint",
        ended="timeout",
        exit_code=None,
        seconds=1e22,
        output="\x1b[31mred\x1b[0m\r\nnull\n  ",
        output_digest="1" * 64,
    )
    values = {
        "issue_number": 12,
        "anchor": SHA,
        "commands_digest": "2" * 64,
        "results": (passed, cut_off),
        "versions": {"python": "3.11"},
        "warnings": ("no: lint",),
    }
    return CheckReport(**values | changes)


def test_nothing_is_known_of_a_commit_never_checked(results):
    assert results.load(12, SHA) is None
    assert results.load(12, "../../../config") is None


def test_what_was_saved_is_loaded_equal(results):
    results.save(report())
    assert results.load(12, SHA) == report()


@pytest.mark.parametrize("anchor", ["0012345", "12345e6", "not_applicable", "a" * 64])
def test_every_kind_of_anchor_has_its_own_results(results, anchor):
    results.save(report())
    results.save(report(anchor=anchor, results=()))
    assert results.load(12, anchor) == report(anchor=anchor, results=())
    assert results.load(12, SHA) == report()


def test_issues_do_not_share_results(results):
    results.save(report())
    assert results.load(13, SHA) is None


def test_results_of_a_second_round_take_the_place_of_the_first(results):
    results.save(report(results=()))
    results.save(report())
    assert results.load(12, SHA) == report()
