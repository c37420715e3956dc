"""Who belongs to a child of ours: told apart from strangers, found wherever they went, and killed (ruling R3)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psutil

from irontree.ports import Child
from irontree.processes.limits import MARK

KILL_SECONDS = 5.0
KILL_PAUSE = 0.01


def identify(pid: int, mark: str, argv: Sequence[str]) -> Child:
    """Describe the process *pid*, which leads its own group, so that it can be recognised later; we own it."""
    us = os.getpid()
    return Child(pid, pid, _started(pid) or "", _boot(), mark, " ".join(argv)[:200], us, _started(us) or "")


def is_same(child: Child) -> bool:
    """Whether the pid is still that process: it may have been given to another one since."""
    return child.boot == _boot() and child.started == _started(child.pid)


def is_owned(child: Child) -> bool:
    """Whether the process that started it lives: it is nobody's leftover then."""
    if child.boot != _boot() or not child.owner_started or child.owner_started != _started(child.owner):
        return False
    with contextlib.suppress(psutil.Error):
        return _lives(psutil.Process(child.owner))
    return False


def family(child: Child, *, sure: bool) -> list[psutil.Process]:
    """Those that live: the child's group and descendants if we are *sure* of its pid, and all that bear its mark."""
    descendants = _descendants(child.pid) if sure else set()
    return [
        process
        for process in psutil.process_iter()
        if process.pid in descendants or (sure and _group(process.pid) == child.pgid) or _bears(process, child.mark)
        if _lives(process)
    ]


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Signal each of them; those that have ended meanwhile are no error."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def kill_family(child: Child, *, sure: bool) -> bool:
    """SIGKILL the child and all it started, until none is left; False if none lived."""
    found = alive = family(child, sure=sure)
    deadline = time.monotonic() + KILL_SECONDS  # one that hangs in the kernel cannot be killed
    while alive and time.monotonic() < deadline:
        send(alive, signal.SIGKILL)
        time.sleep(KILL_PAUSE)
        alive = family(child, sure=sure)
    return bool(found)


def _descendants(pid: int) -> set[int]:
    try:
        return {process.pid for process in psutil.Process(pid).children(recursive=True)}
    except psutil.Error:
        return set()


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _bears(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _started(pid: int) -> str | None:
    """When *pid* was started, comparable within one boot and untouched by clock changes; None if it is not there."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        if stat.exists():
            return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        return repr(psutil.Process(pid).create_time())
    except (OSError, psutil.Error):
        return None


@cache
def _boot() -> str:
    """What tells this boot of the machine from any other."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return boot_id.read_text(encoding="ascii").strip() if boot_id.exists() else str(int(psutil.boot_time()))
