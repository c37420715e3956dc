"""Real processes on one state folder: they race, they are killed, and the log stays whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.app import SystemClock
from irontree.domain.digests import digest_chain
from irontree.domain.events import IssueEvent
from irontree.errors import Busy
from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout, create
from irontree.store.locks import FileLock
from irontree.store.streams import ISSUE_FORM
from tests.integration.store.writers import LOST, WON
from tests.support.store import StillClock, published, started

REPOSITORY = Path(__file__).resolve().parents[3]
KILLED = -signal.SIGKILL
STEPS = range(8)
LONG = 30.0


def command(mode: str, root: Path, *numbers: int) -> list[str]:
    return [sys.executable, "-m", "tests.integration.store.writers", mode, str(root), *map(str, numbers)]


def exit_codes(mode: str, root: Path, *numbers: int) -> list[int]:
    done = subprocess.run(command(mode, root, *numbers), cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def log(tmp_path) -> FileEventLog[int, IssueEvent]:
    create(tmp_path)
    return FileEventLog(ISSUE_FORM, tmp_path, StillClock())


def test_sixteen_processes_append_a_stream_without_gap_or_double(tmp_path, log):
    assert exit_codes("many", tmp_path, 16, 4) == [WON] * 16
    stream = log.read(12)
    assert [record.event.sequence for record in stream.records] == list(range(1, 65))
    assert stream.problems == ()


def test_of_eight_processes_at_one_place_one_wins_and_the_others_are_told(tmp_path, log):
    log.append(published(), expected_sequence=0)
    assert sorted(exit_codes("race", tmp_path, 8)) == [WON, *[LOST] * 7]
    assert [record.event for record in log.read(12).records] == [published(), started()]
    assert sorted(path.name for path in Layout(tmp_path).stream(12).iterdir()) == [
        "0001-task-published.yml",
        "0002-run-started.yml",
    ]


def test_of_fifty_processes_that_want_to_run_one_does_and_says_so_in_run_lock(tmp_path, log):
    """Contract, execution lock: serial at the level of the repository (R3, R19)."""
    codes = exit_codes("run", tmp_path, 50)
    assert sorted(codes) == [WON, *[LOST] * 49]
    winner = codes.index(WON) + 1
    layout = Layout(tmp_path)
    assert f"issue_number: {winner}\n" in layout.run_lock.read_text()
    assert FileLock(layout.driver_lock, SystemClock(), "here").holder() is None, "freed by the kernel"


def test_of_fifty_processes_at_one_place_one_appends_and_forty_nine_get_a_sequence_conflict(tmp_path, log):
    log.append(published(), expected_sequence=0)
    assert sorted(exit_codes("race", tmp_path, 50)) == [WON, *[LOST] * 49]
    assert log.read(12).highest_sequence == 2


def test_fifty_racing_writers_that_try_again_leave_contiguous_sequences(tmp_path, log):
    refused = exit_codes("retry", tmp_path, 50)
    stream = log.read(12)
    assert [record.event.sequence for record in stream.records] == list(range(1, 51))
    assert (stream.problems, digest_chain(stream.records)) == ((), ())
    assert min(refused) == 0


def test_a_writer_killed_at_any_step_leaves_a_log_that_can_be_read_and_written(tmp_path):
    logs = {}
    for step in STEPS:
        create(tmp_path / str(step))
        logs[step] = FileEventLog(ISSUE_FORM, tmp_path / str(step), StillClock())
        logs[step].append(published(), expected_sequence=0)
    codes = exit_codes("kill", tmp_path, *STEPS)
    assert codes[0] == KILLED
    assert codes[-1] == WON, "every step of an append has been tried"
    for step, code in zip(STEPS, codes, strict=True):
        stream = logs[step].read(12)
        assert (stream.problems, stream.last_sequence in {1, 2}) == ((), True)
        assert code == KILLED or stream.last_sequence == 2
        logs[step].append(started(sequence=stream.last_sequence + 1), expected_sequence=stream.last_sequence)
        assert not list((tmp_path / str(step)).rglob(".*.tmp"))


@pytest.fixture
def holder(tmp_path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the driver lock, and the program that it started meanwhile."""
    create(tmp_path)
    process = subprocess.Popen(
        command("hold", tmp_path), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    grandchild = int(process.stdout.readline())
    yield process, grandchild
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_lock_is_held_while_its_holder_stands_still_and_free_when_it_is_killed(tmp_path, holder):
    process, _ = holder
    lock = FileLock(Layout(tmp_path).driver_lock, SystemClock(), "here")
    process.send_signal(signal.SIGSTOP)
    assert (lock.holder().what, lock.holder().pid) == ("issue-12, run", process.pid)
    with pytest.raises(Busy, match=f"issue-12, run.*process {process.pid}"), lock.hold("issue-13, run"):
        pytest.fail("two holders")
    process.kill()
    with lock.hold("issue-13, run", wait_seconds=LONG):
        assert lock.holder().pid == os.getpid()


def test_a_program_that_outlives_the_holder_does_not_keep_the_lock(tmp_path, holder):
    process, grandchild = holder
    # As long as it stands still it cannot notice that its standard input has ended.
    os.kill(grandchild, signal.SIGSTOP)
    process.kill()
    process.wait()
    try:
        os.kill(grandchild, 0)
        with FileLock(Layout(tmp_path).driver_lock, SystemClock(), "here").hold("issue-13, run", wait_seconds=LONG):
            os.kill(grandchild, 0)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_git_sees_the_configuration_and_nothing_else_of_the_state(tmp_path, log):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    log.append(published(), expected_sequence=0)
    Layout(tmp_path).config.write_text("verify:\n")
    listed = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert listed == "?? .mino/.gitignore\n?? .mino/config.yml\n"
