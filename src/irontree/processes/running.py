"""One child between its start and its end: its output line by line, and what is written to its stdin."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol, TypeAlias

from irontree.domain.child import Child
from irontree.domain.text import TRUNCATION_MARKER
from irontree.errors import EnvironmentRefused
from irontree.processes.family import (
    BUBBLEWRAP,
    SHELL,
    Crowd,
    ProcessEnd,
    ProcessLimits,
    family,
    kill_family,
    largest_file,
    send,
)

LONGEST_LINE = 64 * 1024
LONGEST_WORD: Final = 1024
"""A secret of one word is hidden as a whole, where a line comes in pieces."""
_WORD_BEGINS: Final = tuple(re.compile(pattern) for pattern in (rb"(?<=\s)\S", rb"\x1b", rb"[\"'\\%=&<>{},]"))
"""The best first: within a word, the marks that may stand before a secret."""


class LineSplitter:
    """Passes on what was read line by line; one that grows beyond *longest* bytes comes in pieces of whole words."""

    def __init__(self, on_line: Callable[[bytes], None], longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        for line in data.splitlines(keepends=True):
            self._line += line
            if line.endswith(b"\n"):
                self.finish()
        if len(self._line) > self._longest:  # a progress bar without line ends must not fill the memory
            word = self._last_word()
            del self._line[len(self._line) - len(word) :]
            self.finish()
            self._line += word

    def _last_word(self) -> bytes:
        """The end of what was read that may be the beginning of a secret."""
        end = bytes(self._line[-LONGEST_WORD:])
        places = (list(pattern.finditer(end)) for pattern in _WORD_BEGINS)
        begins = next((found[-1].start() for found in places if found), 0)
        return b"" if end[-1:].isspace() else end[begins:]

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._line:
            line = bytes(self._line)
            self._line.clear()
            self._on_line(line)


class Output:
    """Takes the output of one child; *keep* is in bytes, half of it for the beginning and half for the end."""

    def __init__(self, keep: int, on_line: Callable[[bytes], None] | None) -> None:
        self._half = keep // 2
        self._lines = LineSplitter(on_line) if on_line else None
        self._digest = hashlib.sha256()
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._digest.update(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._half:
            del self._tail[: -self._half]
            self._cut = True
        if self._lines:
            self._lines.feed(data)

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._lines:
            self._lines.finish()

    def text(self) -> str:
        """What was kept; a marker line stands where something was cut out."""
        marker = f"\n{TRUNCATION_MARKER}\n".encode() if self._cut else b""
        return (bytes(self._head) + marker + bytes(self._tail)).decode("utf-8", "replace")

    def digest(self) -> str:
        """SHA-256 of everything, 64 hex."""
        return self._digest.hexdigest()


# --- Talking with a child while it works: lines of its stdout in, lines for its stdin out


class Conversation(Protocol):
    """Our half of a talk; what it returns is written to the child's stdin: whole lines, or nothing.

    Stdin stays open until the talk is *over*; a child that has not ended a time of grace later is asked to end.
    """

    @property
    def over(self) -> bool:
        """Whether nothing will be said any more, by either side."""

    def begin(self) -> bytes:
        """Speak first."""

    def hear(self, line: bytes) -> bytes:
        """Answer one line of the child's stdout, which ends as it came."""

    def stop(self) -> bytes:
        """Ask the child to stop: it is about to be ended, and has a time of grace to end the talk itself."""


# --- One child between its start and its end. Imported with the first child: most commands start none


CHUNK_BYTES = 64 * 1024
# A message may carry a whole file.
LONGEST_MESSAGE = 64 * 1024 * 1024
TICK_SECONDS = 0.1

_GATE = 'read -r _ && exec "$@"'


Process: TypeAlias = subprocess.Popen[bytes]


def missing(program: str, cwd: Path, environment: Mapping[str, str]) -> bool:
    """Whether there is no such program to start."""
    located = str(cwd / program) if "/" in program else program
    return shutil.which(located, path=environment.get("PATH", os.defpath)) is None


def start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, errors: int = subprocess.STDOUT
) -> Process:
    """Start the child in a session of its own, behind the gate: it runs with the first line on its stdin.

    *errors* is where its stderr goes, as `Popen` takes it; to its stdout unless it is given. Raises EnvironmentRefused
    if the folder *cwd* is gone.
    """
    try:
        return subprocess.Popen(
            [SHELL, "-c", _GATE, "sh", *argv],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            bufsize=0,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _folder_is_gone(cwd) from error


MOST_PROCESSES: Final = 8192
"""Of one user, with threads: more than a desktop and a large build have together, and few enough to end a fork bomb."""
_MOST_FILES: Final = 65536
"""Open at one moment, in one process."""
_FIRST_TO_GO: Final = b"500"
"""When memory is short. It has no limit of its own: runtimes reserve much more than they use."""


def limit(pid: int, mark: str) -> None:
    """Bound what the program that *pid* becomes, and all that it starts, may take; on Linux.

    The system bounds the number of processes for all but root; `Crowd` watches it for all. A core file would hold
    memory, and with it secrets.
    """
    if sys.platform != "linux":
        return
    bounds = {
        resource.RLIMIT_NPROC: MOST_PROCESSES,
        resource.RLIMIT_FSIZE: largest_file(mark),
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: _MOST_FILES,
    }
    for kind, most in bounds.items():
        with contextlib.suppress(OSError):
            soft, hard = resource.prlimit(pid, kind)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            # Programs raise the number of open files themselves if they need more.
            begins = min(soft, least) if kind == resource.RLIMIT_NOFILE and soft != resource.RLIM_INFINITY else least
            resource.prlimit(pid, kind, (begins, least))
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_bytes(_FIRST_TO_GO)


def abandon(process: Process, child: Child) -> None:
    """Leave nothing open; a child that still runs (we are being interrupted) is killed with all it started."""
    if process.returncode is None:
        kill_family(child, sure=True)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _end_of(pid: int) -> int | None:
    """A descriptor that becomes readable at the end of the process; None on an old kernel, or in a strict sandbox."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


class Running:
    """One child between its start and its end."""

    def __init__(
        self, process: Process, child: Child, output: Output, grace: float, conversation: Conversation | None = None
    ) -> None:
        self._process = process
        self._child = child
        self._output = output
        self._grace = grace
        self._talk = conversation
        self._messages = LineSplitter(self._hear, LONGEST_MESSAGE)
        self._heard_at = time.monotonic()
        self._input = memoryview(b"")
        self._remark = ""
        self._selector = selectors.DefaultSelector()

    def until_end(self, stdin: bytes, limits: ProcessLimits, *, leave_daemons: bool) -> tuple[ProcessEnd, float]:
        """Let the child go, feed and read it until it ends or must end; how it ended, and after how many seconds."""
        began = time.monotonic()
        with self._selector, self._waking_at_its_end():
            self._connect()
            self._say(b"\n" + stdin + (self._talk.begin() if self._talk else b""))
            ended = self._watch(limits, began)
            if self._process.poll() is None:
                self._ask_to_end()
            if ended != "exited" or not leave_daemons:
                kill_family(self._child, sure=True)
            self._process.wait()
            self._drain()
            self._output.feed(self._remark.encode())
            self._messages.finish()
            self._output.finish()
        return ended, time.monotonic() - began

    def _connect(self) -> None:
        taken = self._messages.feed if self._talk else self._output.feed
        for pipe, take in ((self._process.stdout, taken), (self._process.stderr, self._output.feed)):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, partial(self._read, pipe, take))
        if self._process.stdin:
            os.set_blocking(self._process.stdin.fileno(), False)

    @contextmanager
    def _waking_at_its_end(self) -> Iterator[None]:
        """Let the selector see the child end; where the system has no such thing, the next tick notices it."""
        end = _end_of(self._process.pid)
        if end is None:
            yield
            return
        try:
            self._selector.register(end, selectors.EVENT_READ, partial(self._selector.unregister, end))
            yield
        finally:
            os.close(end)

    def _watch(self, limits: ProcessLimits, began: float) -> ProcessEnd:
        over_at: float | None = None
        crowd = Crowd(self._child, limits.processes)
        while self._process.poll() is None:
            now = time.monotonic()
            if self._talk and self._talk.over:
                over_at = over_at or now
                if now - over_at > self._grace:
                    break
            if limits.cancel is not None and limits.cancel.is_set():
                return "cancelled"
            if now - began > limits.wall_seconds:
                return "timeout"
            if limits.stall_seconds is not None and now - self._heard_at > limits.stall_seconds:
                return "stalled"
            if crowd.is_too_large():  # it counts as a program that the system killed
                kill_family(self._child, sure=True)
                self._process.wait()
                self._remark = f"\nirontree: killed, because it had more than {limits.processes} processes\n"
            self._transfer(TICK_SECONDS)
        return "exited"

    def _ask_to_end(self) -> None:
        """In its own words if it can be talked with, then by SIGTERM to all; the last words of both are read."""
        if self._talk and not self._talk.over:
            self._say(self._talk.stop())
            self._read_on(lambda: self._process.poll() is None and not self._is_all_said())
        # bubblewrap itself would end at once, and take the program with it; it ends with the program anyway.
        monitor = self._child.pid if self._child.engine == BUBBLEWRAP else None
        asked = [process for process in family(self._child, sure=True) if process.pid != monitor]
        send(asked, signal.SIGTERM)
        self._read_on(lambda: bool(family(self._child, sure=True)))

    def _read_on(self, needed: Callable[[], bool]) -> None:
        """Go on reading for the time of grace, as long as it is needed."""
        deadline = time.monotonic() + self._grace
        while time.monotonic() < deadline and needed():
            if not self._transfer(TICK_SECONDS):
                time.sleep(TICK_SECONDS)

    def _drain(self) -> None:
        """Read what is left in the pipe, without waiting for a daemon that holds it open."""
        while self._transfer(0):
            pass

    def _transfer(self, seconds: float) -> bool:
        """Move what can be moved within *seconds*; False if nothing could. With all pipes closed, wait for the end."""
        if not self._selector.get_map():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _hear(self, message: bytes) -> None:
        if self._talk and not self._talk.over:
            self._say(self._talk.hear(message))

    def _say(self, words: bytes) -> None:
        """Queue *words* for its stdin, which is closed once nothing more will be said."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed or not (words or self._is_all_said()):
            return
        self._input = memoryview(bytes(self._input) + words)
        if pipe not in self._selector.get_map():
            self._selector.register(pipe, selectors.EVENT_WRITE, partial(self._write, pipe))

    def _is_all_said(self) -> bool:
        return self._talk is None or self._talk.over

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._input = self._input[os.write(pipe.fileno(), self._input[:CHUNK_BYTES]) :]
        except BrokenPipeError:  # it does not read its input, which is no error
            self._input = self._input[:0]
        if not self._input:
            self._selector.unregister(pipe)
            if self._is_all_said():
                pipe.close()

    def _read(self, pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
        data = os.read(pipe.fileno(), CHUNK_BYTES)
        if not data:
            self._selector.unregister(pipe)
            return
        if pipe is self._process.stdout:  # with a conversation, noise on stderr is no sign of life
            self._heard_at = time.monotonic()
        take(data)


class Patient(io.RawIOBase):
    """What a child answers on *pipe*; to wait *seconds* for a piece of it in vain raises EnvironmentRefused."""

    def __init__(self, pipe: IO[bytes], seconds: float) -> None:
        self._pipe = pipe
        self._seconds = seconds
        self._selector = selectors.DefaultSelector()
        self._selector.register(pipe, selectors.EVENT_READ)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is; 0 at its end."""
        if not self._selector.select(self._seconds):
            raise EnvironmentRefused(f"a program was asked something and did not answer within {self._seconds:.0f} s")
        view = memoryview(buffer)
        data = os.read(self._pipe.fileno(), len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the pipe too."""
        self._selector.close()
        self._pipe.close()
        super().close()


# --- Short programs that only read


class Captured(NamedTuple):
    """The output of a short program that changes nothing."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def capture(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seconds: float, stdin: bytes = b""
) -> Captured:
    """Run a program that only reads, unrecorded, and keep all it prints.

    Raises EnvironmentRefused if it or the folder *cwd* is missing, or it does not end within *seconds*.
    """
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, input=stdin, capture_output=True, timeout=seconds, check=False
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if not cwd.is_dir():
            raise _folder_is_gone(cwd) from error
        raise EnvironmentRefused(f"{argv[0]}: {error.strerror}", remedy=f"install {argv[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentRefused(f"`{' '.join(argv)}` did not end within {seconds:.0f} s") from error
    return Captured(done.returncode, done.stdout, done.stderr)


def run_here(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Run a program of the user's own on this terminal until it ends; returns its exit code."""
    try:
        return subprocess.run(argv, cwd=folder, env=environment, check=False).returncode
    except OSError as error:
        raise EnvironmentRefused(f"{argv[0]}: {error.strerror}", remedy="name another program in SHELL") from error


def _folder_is_gone(folder: Path) -> EnvironmentRefused:
    """The error for a missing folder, which the system reports as if the program were missing."""
    return EnvironmentRefused(f"the folder {folder} is gone", remedy="put it back, or work elsewhere")
