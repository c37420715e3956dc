"""The processes of a child: its limits, and how everything that it started is found and killed (R3)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from irontree.domain.child import Child

if TYPE_CHECKING:
    from psutil import Process

    from irontree.ports import Cancellation

SHELL = "/bin/sh"
# Descendants inherit it, also those that left the process group (the way of Jenkins' process tree killer).
MARK = "IRONTREE_CHILD"

BUBBLEWRAP = "bubblewrap"
"""What is recorded of a child as its engine; the other engines have a container to remove."""

ProcessEnd = Literal["exited", "timeout", "stalled", "cancelled", "not_started"]


MOST_OF_ONE: Final = 2048
"""Processes of one program of others: more than a large build has, and few enough to be ended within seconds."""


class ProcessLimits(NamedTuple):
    """Seconds in all, seconds without output, whether a stop is asked for, and how many processes are too many."""

    wall_seconds: float
    stall_seconds: float | None = None
    cancel: Cancellation | None = None
    processes: int = MOST_OF_ONE


# --- The processes of a child


LARGEST_FILE: Final = 64 * 1024**3
"""Bytes that a program of others may write to one file, and a little more: how much more tells the family."""
KILL_SECONDS = 5.0
KILL_PAUSE = 0.01
EXEC_LOOKS, EXEC_PAUSE = 3, 0.001


def identify(pid: int, mark: str, argv: Sequence[str]) -> Child:
    """Describe the process *pid*, which leads its own group, so that it can be recognised later; we own it."""
    us = os.getpid()
    return Child(pid, pid, _started(pid) or "", _boot(), mark, " ".join(argv)[:200], us, _own_start(us))


def is_same(child: Child) -> bool:
    """Whether the pid is still that process: it may have been given to another one since."""
    return child.boot == _boot() and child.started == _started(child.pid)


def is_owned(child: Child) -> bool:
    """Whether the process that started it lives: then it is no leftover."""
    if child.boot != _boot() or not child.owner_started or child.owner_started != _started(child.owner):
        return False
    with contextlib.suppress(_psutil().Error):
        return _lives(_psutil().Process(child.owner))
    return False


def family(child: Child, *, sure: bool) -> list[Process]:
    """The live ones: the child's group and descendants if we are *sure* of its pid, and all that carry its mark."""
    pids = _psutil().pids()
    found = {pid for pid in pids if _bears(pid, child)}
    if sure:
        found |= _descendants(child.pid) | {pid for pid in pids if _group(pid) == child.pgid}
    return [process for pid in sorted(found) for process in _live_process(pid)]


class Crowd:
    """Notices a family that grows without end, also one of root, whom the limit of processes does not hold; on Linux.

    It is counted only when the whole machine has that many tasks more than when the child began.
    """

    def __init__(self, child: Child, most: int) -> None:
        """Watch for more than *most* processes."""
        self._child = child
        self._most = most
        self._alarm = _tasks() + most

    def is_too_large(self) -> bool:
        """Whether it has more processes than it may."""
        if (tasks := _tasks()) <= self._alarm:
            return False
        members = self._count()
        self._alarm = tasks + max(self._most - members, 0)
        return members > self._most

    def _count(self) -> int:
        """How many it has, or one too many: they become more while they are counted, so that is soon told."""
        limit, marked = largest_file(self._child.mark), set[int]()
        for pid in _running():
            if _limit(pid) == limit:
                marked.add(pid)
                if len(marked) > self._most:
                    return len(marked)
        born = defaultdict[int, list[int]](list)
        for pid in _running():
            born[_parent(pid)].append(pid)
        found, new = set[int](), [self._child.pid, *marked]
        while new:
            if (pid := new.pop()) not in found:
                found.add(pid)
                new += born[pid]
        return len(found)


def _running() -> Iterator[int]:
    """The processes one after another: a whole list of them could be long before it is complete."""
    with os.scandir("/proc") as entries:
        yield from (int(entry.name) for entry in entries if entry.name.isdigit())


def _parent(pid: int) -> int:
    """The process that *pid* belongs to; 0 if that cannot be said."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # noqa: PTH123  (of many, and quickly)
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _tasks() -> int:
    """How many processes and threads the machine has; 0 where it does not say."""
    try:
        with open("/proc/loadavg", encoding="ascii") as said:  # noqa: PTH123  (ten times a second)
            return int(said.read().split()[3].partition("/")[2])
    except OSError:
        return 0


def send(processes: Sequence[Process], number: signal.Signals) -> None:
    """Signal each of them; those that have ended meanwhile are no error."""
    for process in processes:
        with contextlib.suppress(_psutil().Error):
            process.send_signal(number)


def kill_family(child: Child, *, sure: bool) -> bool:
    """SIGKILL the child and all it started, until none is left; False if none lived."""
    found = sure and _kill_group(child)
    alive = family(child, sure=sure)
    found = found or bool(alive)
    deadline = time.monotonic() + KILL_SECONDS  # one that hangs in the kernel cannot be killed
    while alive and time.monotonic() < deadline:
        send(alive, signal.SIGKILL)
        time.sleep(KILL_PAUSE)
        alive = family(child, sure=sure)
    return found


def _kill_group(child: Child) -> bool:
    """SIGKILL its group, and that of its sandbox, each at one moment: before one of them starts another."""
    found = False
    for group in (*_first_within(child), child.pgid):
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
            found = True
    return found


def _first_within(child: Child) -> list[int]:
    """The first process of its sandbox, which leads a group of its own, and with which all others there end."""
    if child.engine != BUBBLEWRAP:
        return []
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    with contextlib.suppress(OSError):
        return [pid for pid in map(int, children.read_text("ascii").split()) if _group(pid) == pid]
    return []


def is_at_work(
    program: str,
    folders: Sequence[Path],
    but: Callable[[Sequence[str]], bool],
    *,
    hidden_works: bool,
    among: Iterable[Process] | None = None,
) -> bool:
    """Whether a process called *program*, or `program-…`, works below one of *folders*.

    One whose command line passes *but* does not count. Another user's may not show where it works: *hidden_works* says
    what that counts as. *among* is all by default.
    """
    found = _psutil().process_iter() if among is None else among
    return any(_works(process, program, folders, but, hidden_works=hidden_works) for process in found)


def _works(
    process: Process,
    program: str,
    folders: Sequence[Path],
    but: Callable[[Sequence[str]], bool],
    *,
    hidden_works: bool,
) -> bool:
    try:
        name = process.name()
        if (name != program and not name.startswith(f"{program}-")) or but(process.cmdline()):
            return False
        return any(map(Path(process.cwd()).is_relative_to, folders))
    except _psutil().NoSuchProcess:
        return False
    except (_psutil().Error, OSError):
        return hidden_works


def opened(paths: Iterable[Path]) -> frozenset[Path]:
    """Those of *paths* that a living process has open, as far as we may look."""
    wanted = {os.path.realpath(path): path for path in paths}
    found = set[Path]()
    for process in _psutil().process_iter() if wanted else ():
        with contextlib.suppress(_psutil().Error, OSError):
            found |= {wanted[file.path] for file in process.open_files() if file.path in wanted}
    return frozenset(found)


def _descendants(pid: int) -> set[int]:
    try:
        return {process.pid for process in _psutil().Process(pid).children(recursive=True)}
    except _psutil().Error:
        return set()


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def largest_file(mark: str) -> int:
    """The limit that tells who descends from that child, also without its parents and its environment."""
    return LARGEST_FILE + zlib.crc32(mark.encode()) % 2**28


def _bears(pid: int, child: Child) -> bool:
    """Whether its environment or its limit has our mark; all processes are looked at, so this must be quick."""
    try:
        if _limit(pid) == largest_file(child.mark):
            return True
        if sys.platform != "linux":
            return _psutil().Process(pid).environ().get(MARK) == child.mark
        return f"\0{MARK}={child.mark}\0".encode() in b"\0" + _variables(pid, child)
    except (_psutil().Error, OSError):
        return False


def _limit(pid: int) -> int | None:
    """The most that it may write to a file, which only root can raise; None if that cannot be asked."""
    if sys.platform != "linux":
        return None
    try:
        return resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    except OSError:  # another user's
        return None


def _variables(pid: int, child: Child) -> bytes:
    """Its environment as Linux shows it. For a moment within execve it shows none: that is looked at again."""
    for _ in range(EXEC_LOOKS):
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as variables:  # noqa: PTH123  (a third of the time)
            if found := variables.read():
                return found
        if not _may_begin(pid, child):
            break
        time.sleep(EXEC_PAUSE)
    return b""


def _may_begin(pid: int, child: Child) -> bool:
    """Whether a process without an environment may just begin: a program that is not older than the child."""
    Path(f"/proc/{pid}/exe").readlink()  # fails for what has ended, and for the kernel's own
    return int(_started(pid) or 0) >= int(child.started or 0)


def _live_process(pid: int) -> Iterator[Process]:
    """The process itself, if it lives."""
    with contextlib.suppress(_psutil().NoSuchProcess):
        process = _psutil().Process(pid)
        if _lives(process):
            yield process


def _lives(process: Process) -> bool:
    try:
        return bool(process.status() != _psutil().STATUS_ZOMBIE)
    except _psutil().Error:
        return False


def _started(pid: int) -> str | None:
    """When *pid* was started, comparable within one boot and untouched by clock changes; None if it is not there."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        if stat.exists():
            return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        return repr(_psutil().Process(pid).create_time())
    except (OSError, _psutil().Error):
        return None


@cache
def _own_start(us: int) -> str:
    """When we were started; by our pid, which is another one in a process that forked off."""
    return _started(us) or ""


@cache
def _boot() -> str:
    """What tells this boot of the machine from any other."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return boot_id.read_text(encoding="ascii").strip() if boot_id.exists() else str(int(_psutil().boot_time()))


@cache
def _psutil() -> Any:
    """The library, imported with the first question about a process: commands that only read ask none."""
    import psutil  # noqa: PLC0415

    return psutil
