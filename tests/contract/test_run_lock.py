"""What every RunLock keeps, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.store.layout import create
from irontree.store.lockfiles import RunLockFile
from irontree.store.memory import MemoryRunLock
from tests.support.store import StillClock

THEIRS = 'task_key: their-task\nissue_number: 7\nacquired_at: "2026-04-22T11:00:00Z"\nhost: elsewhere\n'


class OnDisk:
    def __init__(self, root) -> None:
        self._path = create(root).run_lock
        self._clock = StillClock()
        self.lock = RunLockFile(self._path, self._clock, "here")

    def put_theirs(self) -> None:
        self._path.write_text(THEIRS)

    def wait_for_a_day(self) -> None:
        self._clock.advance(days=1)


class InMemory:
    def __init__(self, root) -> None:
        self.lock = MemoryRunLock()

    def put_theirs(self) -> None:
        self.lock.other = "issue-7 (their-task), on elsewhere"

    def wait_for_a_day(self) -> None:
        self.lock.is_old = True


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path):
    return request.param(tmp_path)


def test_nobody_else_holds_what_was_never_written(subject):
    assert subject.lock.foreign() is None


def test_our_own_lock_keeps_nobody_of_us_out(subject):
    subject.lock.write("auth-core", 12)
    assert subject.lock.foreign() is None


def test_another_tool_is_named_with_its_issue(subject):
    subject.put_theirs()
    assert "issue-7 (their-task)" in subject.lock.foreign()


def test_removing_what_is_not_there_is_no_error(subject):
    subject.lock.remove()
    subject.lock.write("auth-core", 12)
    subject.lock.remove()
    subject.lock.remove()
    assert subject.lock.foreign() is None


def test_another_tools_lock_is_not_ours_to_remove(subject):
    subject.put_theirs()
    subject.lock.remove()
    assert "their-task" in subject.lock.foreign()


def test_another_tools_old_lock_holds_nobody_out_and_stays_until_it_is_overridden(subject):
    subject.put_theirs()
    subject.lock.override()
    assert (bool(subject.lock.foreign()), subject.lock.stale()) == (True, None)
    subject.wait_for_a_day()
    assert subject.lock.foreign() is None
    assert "their-task" in subject.lock.stale()
    subject.lock.override()
    assert subject.lock.stale() is None
