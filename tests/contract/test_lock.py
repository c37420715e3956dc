"""What every Lock keeps: one holder at a time, named to everybody else."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack

import pytest

from irontree.errors import Busy, EnvironmentRefused
from irontree.store.layout import Layout, create
from irontree.store.lockfiles import LoopLease
from irontree.store.locks import FileLock
from irontree.store.memory import MemoryLock
from tests.support.store import StillClock

LONG = 30.0


@pytest.fixture(params=["driver", "lease", "memory"])
def locks(request, tmp_path):
    """Two views of the same lock, as two processes would have them."""
    if request.param == "memory":
        lock = MemoryLock(StillClock())
        return lock, lock
    return _on_disk(request.param, create(tmp_path)), _on_disk(request.param, Layout(tmp_path))


def _on_disk(kind, layout):
    if kind == "driver":
        return FileLock(layout.driver_lock, StillClock(), "here")
    return LoopLease(layout, StillClock(), "here")


def test_a_lock_that_nobody_holds_has_no_holder(locks):
    assert locks[0].holder() is None


def test_the_holder_is_named_while_it_holds(locks):
    mine, theirs = locks
    with mine.hold("issue-12, run"):
        holder = theirs.holder()
        assert (holder.what, holder.since) == ("issue-12, run", "2026-04-22T12:00:00Z")
        assert holder.pid == os.getpid()
    assert theirs.holder() is None


def test_a_second_holder_is_refused_and_told_who_is_first(locks):
    mine, theirs = locks
    with mine.hold("issue-12, run"):
        with pytest.raises(Busy, match=r"issue-12, run \(.*, since 2026-04-22T12:00:00Z"), theirs.hold("issue-13, run"):
            pytest.fail("two holders")
        assert theirs.holder().what == "issue-12, run"


def test_a_second_hold_of_the_same_object_is_refused_too(locks):
    with locks[0].hold("issue-12, run"), pytest.raises(Busy), locks[0].hold("issue-12, again"):
        pytest.fail("two holders")


def test_a_lock_is_free_again_after_an_error(locks):
    with pytest.raises(RuntimeError, match="inside"), locks[0].hold("issue-12, run"):
        raise RuntimeError("inside")
    with locks[1].hold("issue-13, run"):
        assert locks[0].holder().what == "issue-13, run"


def test_who_waits_gets_the_lock_when_it_is_free(locks):
    mine, theirs = locks
    waiting, got = threading.Event(), threading.Event()

    def wait_for_it() -> None:
        waiting.set()
        with theirs.hold("issue-13, run", wait_seconds=LONG):
            got.set()

    waiter = threading.Thread(target=wait_for_it)
    with mine.hold("issue-12, run"):
        waiter.start()
        assert waiting.wait(LONG)
        assert not got.is_set()
    assert got.wait(LONG)
    waiter.join()


def test_threads_of_one_process_keep_each_other_out(locks):
    inside, most = [], []

    def work(lock) -> None:
        with lock.hold("a thread", wait_seconds=LONG):
            inside.append(1)
            time.sleep(0.01)  # long enough for another one to come in, if it could
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work, args=(locks[number % 2],)) for number in range(8)]
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
    assert most == [1] * 8


def test_a_link_to_nothing_in_place_of_a_lock_is_called_that(tmp_path):
    lock = tmp_path / ".driver"
    lock.symlink_to(tmp_path / "gone" / "elsewhere")
    with (
        pytest.raises(EnvironmentRefused, match=r"\.driver is a link to nothing"),
        FileLock(lock, StillClock(), "here").hold("a test"),
    ):
        pass
