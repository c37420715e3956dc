"""run.lock and active.lock: the contract's form, our children, and what other tools write."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from irontree.domain.child import Child
from irontree.errors import Busy, EnvironmentRefused, LogDamaged
from irontree.files import locked
from irontree.store.layout import Layout, create
from irontree.store.lockfiles import LoopLease, RunLockFile
from irontree.store.locks import FileLock, exclusive, flock_works
from tests.support.store import LOOP_ID, NOON, StillClock

CHILD = Child(
    *(101, 101, "00123456", "12345e67", "0f", "git commit -m 'a: b'"),
    *(99, "12345"),
)
THEIRS = 'task_key: their-task\nissue_number: 7\nacquired_at: "2026-04-22T11:00:00Z"\nhost: elsewhere\n'


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def layout(tmp_path) -> Layout:
    return create(tmp_path)


@pytest.fixture
def run_lock(layout, clock):
    return RunLockFile(layout.run_lock, clock, "here")


@pytest.fixture
def lease_file(layout, clock):
    return lease(layout, clock)


def test_other_users_of_the_machine_cannot_hold_a_lock(layout):
    """...though an earlier version made it for all to read."""
    layout.append_lock.touch(0o644)
    layout.append_lock.chmod(0o644)
    for hold, path in ((exclusive, layout.append_lock), (locked, layout.append_lock.with_name("another"))):
        with hold(path):
            assert path.stat().st_mode & 0o077 == 0


def test_the_run_lock_has_the_contract_s_keys_and_ours_beside_them(layout, run_lock):
    run_lock.write("auth-core", 12)
    run_lock.record(CHILD)
    assert layout.run_lock.read_text() == (
        "task_key: auth-core\nissue_number: 12\n"
        'acquired_at: "2026-04-22T12:00:00Z"\nhost: here\n'
        f"meta:\n  writer: irontree\n  host: here\n  pid: {os.getpid()}\n"
        '  children:\n    - pid: 101\n      pgid: 101\n      started: "00123456"\n      boot: "12345e67"\n'
        """      mark: "0f"\n      command: "git commit -m 'a: b'"\n"""
        '      owner: 99\n      owner_started: "12345"\n      engine: ""\n'
    )


def test_children_come_back_as_they_were_recorded_until_they_are_forgotten(run_lock):
    run_lock.write("auth-core", 12)
    for pid in (101, 102, 103):
        run_lock.record(replace(CHILD, pid=pid))
    run_lock.forget(102)
    run_lock.forget(999)
    assert run_lock.recorded() == tuple(replace(CHILD, pid=pid) for pid in (101, 103))


def test_children_are_recorded_before_and_across_the_naming_of_a_task(run_lock, clock):
    run_lock.record(CHILD)
    clock.advance(minutes=1)
    run_lock.write("auth-core", 12)
    run_lock.record(replace(CHILD, pid=102))
    assert [child.pid for child in run_lock.recorded()] == [101, 102]
    assert str(run_lock.found()) == "issue-12 (auth-core), since 2026-04-22T12:01:00Z, on here"


def test_writers_at_the_same_time_lose_no_child(layout, run_lock, clock):
    others = [RunLockFile(layout.run_lock, clock, "here").record, run_lock.record]
    threads = [threading.Thread(target=others[pid % 2], args=(replace(CHILD, pid=pid),)) for pid in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {child.pid for child in run_lock.recorded()} == set(range(8))


def test_a_run_lock_that_names_no_task_goes_with_its_last_child(layout, run_lock):
    for pid in (101, 102):
        run_lock.record(replace(CHILD, pid=pid))
    run_lock.forget(101)
    assert layout.run_lock.exists()
    run_lock.forget(102)
    assert not layout.run_lock.exists()


def test_a_run_lock_that_names_a_task_outlives_its_children(layout, run_lock):
    run_lock.write("auth-core", 12)
    run_lock.record(CHILD)
    run_lock.forget(CHILD.pid)
    assert "task_key: auth-core" in layout.run_lock.read_text()


def test_a_removed_run_lock_says_nothing(layout, run_lock):
    run_lock.write("auth-core", 12)
    run_lock.remove()
    run_lock.remove()
    assert (run_lock.found(), run_lock.foreign(), run_lock.recorded()) == (None, None, ())
    assert not layout.run_lock.exists()


def test_our_own_run_lock_is_never_foreign_however_old(run_lock, clock):
    run_lock.write("auth-core", 12)
    clock.advance(days=3)
    assert run_lock.foreign() is None
    assert run_lock.found().ours


@pytest.mark.parametrize(
    ("hours", "words"), [(2, "issue-7 (their-task), since 2026-04-22T11:00:00Z, on elsewhere"), (3.1, None)]
)
def test_another_tool_s_run_lock_counts_for_two_hours(layout, run_lock, clock, hours, words):
    layout.run_lock.write_text(THEIRS)
    clock.moment = NOON + timedelta(hours=hours - 1)
    assert run_lock.foreign() == words
    assert run_lock.found().stale is (words is None)


def test_children_are_not_recorded_over_another_tool_s_lock_however_old(layout, run_lock, clock):
    layout.run_lock.write_text(THEIRS)
    clock.advance(days=3)
    run_lock.record(CHILD)
    assert layout.run_lock.read_text() == THEIRS


def test_the_limit_is_a_setting(layout, clock):
    layout.run_lock.write_text(THEIRS)
    assert RunLockFile(layout.run_lock, clock, "here", lambda: timedelta(minutes=30)).foreign() is None


def test_our_run_lock_of_another_host_is_foreign_and_its_children_are_none_of_ours(layout, run_lock, clock):
    there = RunLockFile(layout.run_lock, clock, "there")
    there.write("auth-core", 12)
    there.record(CHILD)
    assert run_lock.foreign() == "issue-12 (auth-core), since 2026-04-22T12:00:00Z, on there"
    assert run_lock.recorded() == ()


@pytest.mark.parametrize("content", ["pid: 1\nreason: run\n", "not yaml: [", "acquired_at: yesterday\n"])
def test_a_lock_that_says_no_time_is_as_old_as_its_file(layout, run_lock, clock, content):
    layout.run_lock.write_text(content)
    moment = (NOON - timedelta(minutes=5)).timestamp()
    os.utime(layout.run_lock, (moment, moment))
    assert run_lock.foreign() == "an unnamed task, since 2026-04-22T11:55:00Z"
    clock.advance(hours=3)
    assert run_lock.foreign() is None


def test_a_lock_emptied_by_a_power_loss_is_none(layout, run_lock):
    layout.run_lock.write_text("")
    assert run_lock.found() is None


def test_our_own_lock_with_a_damaged_child_is_not_passed_over(layout, run_lock):
    run_lock.record(CHILD)
    layout.run_lock.write_text(layout.run_lock.read_text().replace("pid: 101", "pid: none", 1))
    with pytest.raises(LogDamaged, match="pid"):
        run_lock.recorded()


def test_the_lease_file_has_the_contract_s_keys_and_a_heartbeat(layout, lease_file, clock):
    layout.loops.mkdir()
    lease_file.write(LOOP_ID)
    clock.advance(minutes=1)
    lease_file.heartbeat()
    assert layout.active_lock.read_text() == (
        f'loop_id: "{LOOP_ID}"\nholder_pid: {os.getpid()}\nholder_agent: mino-task\n'
        'acquired_at: "2026-04-22T12:00:00Z"\nheartbeat_at: "2026-04-22T12:01:00Z"\n'
        f"meta:\n  writer: irontree\n  host: here\n  pid: {os.getpid()}\n  children: []\n"
    )


def test_whoever_reads_a_lock_file_sees_one_whole_state_of_it(layout, lease_file, clock):
    """It is written under another name and renamed: an open file keeps what it had."""
    layout.loops.mkdir()
    lease_file.write(LOOP_ID)
    before = layout.active_lock.read_text()
    with layout.active_lock.open() as reader:
        clock.advance(minutes=1)
        lease_file.heartbeat()
        assert reader.read() == before
    assert layout.active_lock.read_text() != before
    assert [path.name for path in layout.loops.iterdir()] == ["active.lock"]


def test_no_heart_beats_for_a_lease_that_is_gone_or_another_s(layout, lease_file):
    layout.loops.mkdir()
    lease_file.heartbeat()
    assert not layout.active_lock.exists()
    layout.active_lock.write_text(f"loop_id: {LOOP_ID}\n")
    lease_file.heartbeat()
    assert layout.active_lock.read_text() == f"loop_id: {LOOP_ID}\n"


def lease(layout: Layout, clock: StillClock, host: str = "here") -> LoopLease:
    return LoopLease(layout, clock, host)


def test_a_held_lease_shows_in_the_lease_file_and_a_free_one_does_not(layout, clock):
    with lease(layout, clock).hold(LOOP_ID):
        assert f'loop_id: "{LOOP_ID}"' in layout.active_lock.read_text()
    assert not layout.active_lock.exists()
    assert layout.lease_lock.exists(), "a lock file is never deleted"


class CountingClock(StillClock):
    """Tells when it has been asked often enough for a heart to have beaten."""

    def __init__(self) -> None:
        super().__init__()
        self.beaten = threading.Event()
        self.asked = 0

    def now(self):
        self.asked += 1
        if self.asked == 4:  # the lock and the file ask when they are written, and then each beat
            self.beaten.set()
        return NOON + timedelta(minutes=self.asked)


def test_the_heart_of_a_held_lease_beats(layout):
    clock = CountingClock()
    lease = LoopLease(layout, clock, "here", beat_seconds=0.001)
    with lease.hold(LOOP_ID):
        assert clock.beaten.wait(30)
    assert not layout.active_lock.exists()


THEIR_LEASE = 'loop_id: theirs\nholder_pid: {pid}\nholder_agent: mino-task\nheartbeat_at: "2026-04-22T10:00:00Z"\n'


def theirs(layout: Layout, pid: int = 1) -> None:
    """The lease file of a living process (1 always lives) of another tool, two hours old."""
    layout.loops.mkdir(exist_ok=True)
    layout.active_lock.write_text(THEIR_LEASE.format(pid=pid))


def test_another_tool_s_living_loop_with_a_fresh_heart_beat_is_respected(layout, clock):
    theirs(layout)
    found = lease(layout, clock)
    with pytest.raises(Busy, match="loop theirs, process 1, since 2026-04-22T10:00:00Z"), found.hold(LOOP_ID):
        pytest.fail("two loops")
    assert ("theirs" in found.foreign(), found.stale(), found.left()) == (True, None, None)
    found.override()
    assert layout.active_lock.exists(), "what is believed to live is never removed"


@pytest.mark.parametrize("why", ["old heart beat", "dead process"])
def test_another_tool_s_stale_lease_is_taken_over_only_once_that_was_confirmed(layout, clock, why):
    theirs(layout, pid=1 if why == "old heart beat" else dead_pid())
    clock.advance(hours=5 if why == "old heart beat" else 0)
    found = lease(layout, clock)
    assert (found.foreign(), found.stale().loop_id, found.left()) == (None, "theirs", None)
    with pytest.raises(Busy, match="stale loop lease detected"), found.hold(LOOP_ID):
        pytest.fail("taken over unasked")
    found.override()
    with found.hold(LOOP_ID):
        assert LOOP_ID in layout.active_lock.read_text()


def test_a_process_of_another_host_cannot_be_seen_from_here_so_its_heart_beat_counts(layout, clock):
    lease(layout, clock, "there").write(LOOP_ID)
    assert lease(layout, clock).foreign()
    clock.advance(hours=7)
    assert lease(layout, clock).stale().loop_id == LOOP_ID


def test_what_our_own_dead_process_left_is_known_without_asking_anybody(layout, clock):
    lease(layout, clock).write(LOOP_ID)
    found = lease(layout, clock)
    assert (found.left().loop_id, found.stale(), found.foreign()) == (LOOP_ID, None, None)
    with found.hold(LOOP_ID):
        assert found.left() is None


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_our_own_lease_file_left_by_a_killed_loop_is_stale_at_once(layout, clock):
    layout.loops.mkdir()
    lease(layout, clock).write("2026-04-21-0000-00ff00")
    with lease(layout, clock).hold(LOOP_ID):
        assert LOOP_ID in layout.active_lock.read_text()


def test_what_a_dead_holder_left_in_the_lock_file_is_not_believed(layout, clock):
    layout.driver_lock.write_text('{"what": "issue-1, run", "since": "long ago", "pid": 1, "host": "here"}')
    assert FileLock(layout.driver_lock, clock, "here").holder() is None


def test_a_holder_that_has_not_said_its_name_yet_is_still_one(layout, clock):
    with exclusive(layout.driver_lock):
        holder = FileLock(layout.driver_lock, clock, "here").holder()
        assert (holder.what, holder.pid) == ("another process", 0)


def test_the_lock_of_a_file_system_can_be_tried(layout):
    assert flock_works(layout.state)
    assert list(layout.state.iterdir()) == [layout.state / ".gitignore"]
    assert not flock_works(layout.root / "nowhere")


def test_a_lock_needs_the_state_folder(tmp_path):
    lock = FileLock(Layout(tmp_path).driver_lock, StillClock(), "here")
    assert lock.holder() is None
    with pytest.raises(EnvironmentRefused) as caught, lock.hold("issue-12, run"):
        pytest.fail("held nothing")
    assert "irontree init" in caught.value.remedy
    assert list(Path(tmp_path).iterdir()) == []


def test_a_lock_that_is_made_while_one_looks_was_free(layout, clock):
    """Who looks in a loop, as a page does, is not told that there is no `.mino/`."""
    lock, made = FileLock(layout.driver_lock, clock, "here"), threading.Event()

    def make_and_remove() -> None:
        while not made.is_set():
            layout.driver_lock.touch()
            layout.driver_lock.unlink()

    maker = threading.Thread(target=make_and_remove)
    maker.start()
    try:
        assert {lock.holder() for _ in range(2000)} == {None}
    finally:
        made.set()
        maker.join()
