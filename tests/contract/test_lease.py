"""What every Lease keeps beside being a lock: other tools' loops are respected, or taken over once confirmed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irontree.errors import Busy
from irontree.ports import LeftLease
from irontree.store.layout import create
from irontree.store.lockfiles import LoopLease
from irontree.store.memory import MemoryLease
from tests.support.store import LOOP_ID, StillClock

OTHER_ID = "2026-04-21-0000-00ff00"


class OnDisk:
    def __init__(self, root: Path) -> None:
        layout, self._clock = create(root), StillClock()
        self._path = layout.active_lock
        self.lease = LoopLease(layout, self._clock, "here")

    def put_theirs(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(
            f'loop_id: "{OTHER_ID}"\nholder_pid: {os.getpid()}\nheartbeat_at: "2026-04-22T12:00:00Z"\n'
        )

    def put_own(self) -> None:
        """As a process of ours leaves it that is shot."""
        self._path.parent.mkdir(exist_ok=True)
        self.lease.write(LOOP_ID)

    def wait_for_a_day(self) -> None:
        self._clock.advance(days=1)


class InMemory:
    def __init__(self, root: Path) -> None:
        self.lease = MemoryLease(StillClock())

    def put_theirs(self) -> None:
        self.lease.other = LeftLease(OTHER_ID, f"loop {OTHER_ID}, process 7")

    def put_own(self) -> None:
        self.lease.own = LeftLease(LOOP_ID, f"loop {LOOP_ID}, process 7")

    def wait_for_a_day(self) -> None:
        self.lease.is_old = True


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path):
    return request.param(tmp_path)


def test_what_nobody_holds_is_nobodys(subject):
    assert (subject.lease.foreign(), subject.lease.stale(), subject.lease.left()) == (None, None, None)


def test_our_own_lease_is_neither_foreign_nor_stale_nor_left_while_it_is_held(subject):
    with subject.lease.hold(LOOP_ID):
        assert (subject.lease.foreign(), subject.lease.stale(), subject.lease.left()) == (None, None, None)


def test_another_tools_living_loop_is_named_and_keeps_us_out(subject):
    subject.put_theirs()
    assert OTHER_ID in subject.lease.foreign()
    with pytest.raises(Busy, match=OTHER_ID), subject.lease.hold(LOOP_ID):
        pytest.fail("two loops")
    subject.lease.override()
    assert OTHER_ID in subject.lease.foreign(), "what lives is not overridden"


def test_a_stale_one_keeps_us_out_too_until_it_is_overridden(subject):
    subject.put_theirs()
    subject.wait_for_a_day()
    assert (subject.lease.foreign(), subject.lease.stale().loop_id) == (None, OTHER_ID)
    with pytest.raises(Busy), subject.lease.hold(LOOP_ID):
        pytest.fail("taken over unasked")
    subject.lease.override()
    with subject.lease.hold(LOOP_ID):
        assert subject.lease.holder().what == LOOP_ID


def test_one_that_our_own_dead_process_left_is_named_and_removed(subject):
    subject.put_own()
    assert subject.lease.left().loop_id == LOOP_ID
    subject.lease.remove_left()
    assert subject.lease.left() is None


def test_what_another_tool_left_is_not_removed_as_ours(subject):
    subject.put_theirs()
    subject.lease.remove_left()
    assert OTHER_ID in subject.lease.foreign()
