"""Processes that write to one log at the same time, or die over it; run by test_store_processes.py.

`python -m tests.integration.store.writers many|race|run|retry|kill|hold ROOT [NUMBER ...]`
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from irontree.app import SystemClock
from irontree.errors import Busy, SequenceConflict
from irontree.store.event_log import FileEventLog
from irontree.store.layout import Layout
from irontree.store.lockfiles import RunLockFile
from irontree.store.locks import FileLock
from irontree.store.streams import ISSUE_FORM
from tests.support.disk import StoppingDisk
from tests.support.store import StillClock, published, started

WON, LOST = 0, 3


def many(root: Path, processes: int, each: int) -> list[int]:
    """Every process appends *each* events wherever the stream ends by then."""
    log = FileEventLog(ISSUE_FORM, root, StillClock())

    def work() -> int:
        for _ in range(each):
            while not _appended(log, log.read(12).highest_sequence):
                pass
        return WON

    return _forked([work] * processes)


def race(root: Path, processes: int) -> list[int]:
    """Every process appends the second event of the stream, all let go at once."""
    log = FileEventLog(ISSUE_FORM, root, StillClock())
    start, go = os.pipe()

    def work() -> int:
        os.close(go)
        os.read(start, 1)
        return WON if _appended(log, 1) else LOST

    # The last reference to the writing end goes with the parent's: every reader wakes up.
    return _forked([work] * processes, before_waiting=lambda: os.close(go))


def run(root: Path, processes: int) -> list[int]:
    """Every process wants to run an issue, all let go at once; the winner holds on until the others have been told."""
    layout = Layout(root)
    start, go = os.pipe()
    told, tell = os.pipe()

    def work(number: int) -> Callable[[], int]:
        def attempt() -> int:
            os.close(go)
            os.read(start, 1)
            try:
                with FileLock(layout.driver_lock, SystemClock(), "here").hold(f"issue-{number}, run"):
                    RunLockFile(layout.run_lock, SystemClock(), "here").write(f"task-{number}", number)
                    for _ in range(processes - 1):
                        os.read(told, 1)
                    return WON
            except Busy:
                os.write(tell, b".")
                return LOST

        return attempt

    return _forked([work(number) for number in range(1, processes + 1)], before_waiting=lambda: os.close(go))


def retry(root: Path, processes: int) -> list[int]:
    """Every process appends one event, and tries again wherever the stream ends by then; how often it was refused."""
    log = FileEventLog(ISSUE_FORM, root, StillClock())
    start, go = os.pipe()

    def work() -> int:
        os.close(go)
        os.read(start, 1)
        refused = 0
        while not _appended(log, log.read(12).highest_sequence):
            refused += 1
        return min(refused, 255)

    return _forked([work] * processes, before_waiting=lambda: os.close(go))


def kill(root: Path, *steps: int) -> list[int]:
    """One process per step, each in its own state folder, killed at that step of an append."""

    def work(step: int) -> Callable[[], int]:
        disk = StoppingDisk(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        log = FileEventLog(ISSUE_FORM, root / str(step), StillClock(), disk)
        return lambda: WON if _appended(log, 1) else LOST

    return _forked([work(step) for step in steps])


def hold(root: Path) -> list[int]:
    """Hold the driver lock, with a program started meanwhile, until the standard input ends."""
    with FileLock(Layout(root).driver_lock, SystemClock(), "here").hold("issue-12, run"):
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
        sys.stdin.read()
    return []


def _appended(log: FileEventLog, highest: int) -> bool:
    event = started(sequence=highest + 1) if highest else published()
    try:
        log.append(event, expected_sequence=highest)
    except SequenceConflict:
        return False
    return True


def _forked(works: list[Callable[[], int]], before_waiting: Callable[[], None] = lambda: None) -> list[int]:
    """The exit codes of one process per work; negative for a signal."""
    children = [_fork(work) for work in works]
    before_waiting()
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def _fork(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return pid


if __name__ == "__main__":
    mode, folder, *numbers = sys.argv[1:]
    codes = {"many": many, "race": race, "run": run, "retry": retry, "kill": kill, "hold": hold}[mode](
        Path(folder), *map(int, numbers)
    )
    json.dump(codes, sys.stdout)
