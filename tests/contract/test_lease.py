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

    def wait_for_a_day(self) -> None:
        self._clock.advance(days=1)


class InMemory:
    def __init__(self, root: Path) -> None:
        self.lease = MemoryLease(StillClock())

    def put_theirs(self) -> None:
        self.lease.other = LeftLease(OTHER_ID, f"loop {OTHER_ID}, process 7")

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
