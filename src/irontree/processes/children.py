"""The only way to start programs: recorded before they run, limited, and reliably ended (R3).

A child starts behind a gate: a shell that waits for one line on stdin and then becomes the program. Meanwhile
the child is recorded, so that no program ever runs of which a later recovery would not know. It leads its own
session and process group, and its environment carries a mark by which its descendants are found.

When we are killed, a guard notices: a small shell in its own session, at the other end of a pipe of ours. It kills
the groups of all children that were running. (`PR_SET_PDEATHSIG` would reach only the first process of each
group, fires when a *thread* of ours ends, and exists on Linux alone.)
"""

from __future__ import annotations

import contextlib
import copy
import io
import subprocess
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from irontree.domain.child import Child
from irontree.domain.places import OPEN, PlaceSpec
from irontree.domain.text import secret_values, without_secrets
from irontree.processes import running
from irontree.processes.family import MARK, SHELL, ProcessEnd, ProcessLimits, identify, is_owned, is_same, kill_family
from irontree.processes.handing import protect
from irontree.processes.places import Places, engine_of, never_ran
from irontree.processes.redaction import Redaction
from irontree.processes.running import Conversation, Output

KEEP_BYTES = 256 * 1024
_GUARD = """\
live=' '
while read -r sign group; do
  case $sign in
    +) live="$live$group " ;;
    -) live="${live%% $group *} ${live#* $group }" ;;
  esac
done
for group in $live; do kill -s KILL -- "-$group"; done
"""


class ChildRegistry(Protocol):
    """Where running children are written down, so that a later process can find them."""

    def record(self, child: Child) -> None:
        """Note the child; when this returns, another process can read it."""

    def forget(self, pid: int) -> None:
        """Drop the child; no error if it is not noted."""

    def recorded(self) -> tuple[Child, ...]:
        """The children noted and not dropped."""


class Unrecorded:
    """For a command after which nobody recovers: its children die with it, and nothing is written down."""

    def record(self, child: Child) -> None:
        """Note nothing."""

    def forget(self, pid: int) -> None:
        """There is nothing to drop."""

    def recorded(self) -> tuple[Child, ...]:
        """None."""
        return ()


class Completed(NamedTuple):
    """How a program ended. *output* is stdout and stderr as they came, its middle cut out if it was long."""

    ended: ProcessEnd
    exit_code: int | None
    seconds: float
    output: str
    output_digest: str
    """SHA-256, 64 hex, of all of the output."""

    @property
    def ok(self) -> bool:
        """True only for a program that ran to its end with exit code 0."""
        return self.ended == "exited" and self.exit_code == 0


class ChildProcesses:
    """Starts programs and sees them end; also the port `Children`: kills what an earlier driver left behind."""

    def __init__(
        self, registry: ChildRegistry, *, grace_seconds: float = 5.0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Take *grace_seconds* as the time between asking a child to end (SIGTERM) and killing it.

        *environment* is the caller's, for the programs that make a place.
        """
        self._registry = registry
        self._grace = grace_seconds
        self._places = Places(environment or {})
        self._guard = _Guard()
        self._place = OPEN
        self._foreign = False
        self._secrets = secret_values(environment or {})
        self._folders: tuple[Path, ...] = ()
        self._stores: Callable[[], tuple[Path, ...]] = tuple

    def lending(self, stores: Callable[[], tuple[Path, ...]]) -> ChildProcesses:
        """The same, for programs that may read *stores* where they are confined: what git borrows objects from.

        They come from the owner of the repository: the program may have changed its workspace's settings.
        """
        made = copy.copy(self)
        made._stores = stores  # noqa: SLF001  (its own)
        return made

    def within(self, place: PlaceSpec, *folders: Path) -> ChildProcesses:
        """The same, for programs that run in such a place.

        Programs of others do: they have limits, and what they print is told without secrets. If the place is confined,
        they see the folder that they work in and *folders*, which they may change, those that are lent, and what the
        place itself shows.
        """
        made = copy.copy(self)
        made._place, made._folders, made._foreign = place, folders, True  # noqa: SLF001  (its own)
        return made

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        stdin: bytes = b"",
        on_line: Callable[[bytes], None] | None = None,
        conversation: Conversation | None = None,
        keep: int = KEEP_BYTES,
        leave_daemons: bool = False,
    ) -> Completed:
        """Run to the end or a limit; all its processes are gone when this returns.

        *on_line* gets each line of output as it comes; *keep* is in bytes. With *leave_daemons*, what a program
        that ended by itself left running is left alone (git's credential cache). A missing program is `not_started`.
        A *conversation* has stdout and stdin for itself: the output is what comes on stderr then, and only what is
        said on stdout counts against the limit of silence. Raises EnvironmentRefused if the folder *cwd* is gone.
        """
        if self._foreign:
            protect()
        wanted = [without_secrets(word, self._secrets) for word in _for_people(argv)]
        hear = Redaction(on_line, self._secrets).hear if on_line and self._foreign else on_line
        output, mark = Output(keep, hear), uuid.uuid4().hex
        argv, environment = self._places.enter(
            self._place,
            argv,
            mark=mark,
            cwd=cwd,
            environment=environment,
            folders=self._folders,
            readable=self._stores(),
        )
        if running.missing(argv[0], cwd, environment):
            return Completed("not_started", None, 0.0, f"{argv[0]}: no such program", output.digest())
        errors = subprocess.PIPE if conversation else subprocess.STDOUT
        process = running.start(argv, cwd, {**environment, MARK: mark}, errors=errors)
        child = replace(identify(process.pid, mark, wanted), engine=engine_of(self._place))
        ended: ProcessEnd = "cancelled"
        try:
            self._registry.record(child)
            self._guard.watch(child.pgid)
            if self._foreign:
                running.limit(process.pid, mark)
            ended, seconds = running.Running(process, child, output, self._grace, conversation).until_end(
                stdin, limits, leave_daemons=leave_daemons
            )
        finally:
            self._end(process, child, ended)
        said = without_secrets(output.text(), self._secrets) if self._foreign else output.text()
        done = Completed(ended, process.returncode, seconds, said, output.digest())
        return self._as_in_its_place(done)

    @contextmanager
    def answering(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seconds: float
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A program that answers on its stdout what is written to its stdin; it ends with the block.

        To wait *seconds* for an answer in vain raises EnvironmentRefused.
        """
        mark = uuid.uuid4().hex
        process = running.start(argv, cwd, {**environment, MARK: mark}, errors=subprocess.DEVNULL)
        child = identify(process.pid, mark, ())  # it waits most of the time, and is not what ran
        try:
            self._registry.record(child)
            self._guard.watch(child.pgid)
            if process.stdin and process.stdout:
                process.stdin.write(b"\n")
                process.stdout = io.BufferedReader(running.Patient(process.stdout, seconds))
                yield process
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._grace)
        finally:
            self._end(process, child, "exited")

    def _end(self, process: subprocess.Popen[bytes], child: Child, ended: ProcessEnd) -> None:
        running.abandon(process, child)
        if ended != "exited":
            self._remove(child)
        self._guard.release(child.pgid)
        self._registry.forget(child.pid)

    def kill_leftovers(self) -> int:
        """Kill the recorded children that are still the same process, with all they started; how many there were.

        Those of a living process are no leftovers: a command that only backs the log up holds no lock.
        """
        leftovers = [child for child in self._registry.recorded() if not is_owned(child)]
        alive = 0
        for child in leftovers:
            lived, contained = kill_family(child, sure=is_same(child)), self._remove(child)
            alive += lived or contained
            self._registry.forget(child.pid)
        return alive

    def left_behind(self) -> tuple[str, ...]:
        """What ran when the process that had started it died, but for those that only answer questions."""
        return tuple(child.command for child in self._registry.recorded() if child.command and not is_owned(child))

    def _remove(self, child: Child) -> bool:
        """End what runs in its container, if it has one: that outlives the program which started it."""
        return self._places.remove(child.engine, child.mark)

    def _as_in_its_place(self, done: Completed) -> Completed:
        failed = done.ended == "exited" and never_ran(self._place, done.exit_code, done.output)
        return done._replace(ended="not_started", exit_code=None) if failed else done


def _for_people(argv: Sequence[str]) -> Sequence[str]:
    """A program as people call it: of a shell its command, which comes last, without what we put around it."""
    return argv[-1:] if list(argv[:2]) == [SHELL, "-c"] else argv


class _Guard:
    """The process that kills our children when we are killed; started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Kill that group should we die."""
        self._tell(f"+ {group}\n")

    def release(self, group: int) -> None:
        """That group has ended."""
        self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):  # it was killed: recovery still knows the children
            pipe = self._running().stdin
            if pipe:
                pipe.write(line.encode())

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = _start_guard()
            weakref.finalize(self, _dismiss, self._process)
        return self._process


def _start_guard() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SHELL, "-c", _GUARD, "irontree-guard"],
        cwd="/",
        env={"IRONTREE_GUARD": "1"},  # an empty environment would delay processes that search for children
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    if guard.stdin:
        guard.stdin.close()
    guard.wait()
