"""What every ResultStore keeps, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.store.documents import FileResultStore
from irontree.store.layout import create
from irontree.store.memory import MemoryResultStore
from tests.support.store import SHA, check_report


@pytest.fixture(params=["disk", "memory"])
def results(request, tmp_path):
    if request.param == "memory":
        return MemoryResultStore()
    create(tmp_path)
    return FileResultStore(tmp_path, tmp_path / "key")


def test_nothing_is_known_of_a_commit_never_checked(results):
    assert results.load(12, SHA) is None
    assert results.load(12, "../../../config") is None


def test_what_was_saved_is_loaded_equal(results):
    results.save(check_report())
    assert results.load(12, SHA) == check_report()


@pytest.mark.parametrize("anchor", ["0012345", "12345e6", "not_applicable", "a" * 64])
def test_every_kind_of_anchor_has_its_own_results(results, anchor):
    results.save(check_report())
    results.save(check_report(anchor=anchor, results=()))
    assert results.load(12, anchor) == check_report(anchor=anchor, results=())
    assert results.load(12, SHA) == check_report()


def test_issues_do_not_share_results(results):
    results.save(check_report())
    assert results.load(13, SHA) is None


def test_results_of_a_second_round_take_the_place_of_the_first(results):
    results.save(check_report(results=()))
    results.save(check_report())
    assert results.load(12, SHA) == check_report()
