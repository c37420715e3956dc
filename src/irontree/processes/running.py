"""One child between its start and its end. Imported with the first child: most commands start none."""

from __future__ import annotations

import contextlib
import os
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
from typing import IO, TYPE_CHECKING

from irontree.processes.family import family, kill_family, send
from irontree.processes.limits import SHELL, Ended, Limits
from irontree.processes.output import Lines, Output

if TYPE_CHECKING:
    from irontree.ports import Child
    from irontree.processes.conversation import Conversation

CHUNK_BYTES = 64 * 1024
# A message may carry a whole file.
LONGEST_MESSAGE = 64 * 1024 * 1024
TICK_SECONDS = 0.1

_GATE = 'read -r _ && exec "$@"'


def missing(program: str, cwd: Path, environment: Mapping[str, str]) -> bool:
    """Whether there is no such program to start."""
    located = str(cwd / program) if "/" in program else program
    return shutil.which(located, path=environment.get("PATH", os.defpath)) is None


def start(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, apart: bool = False
) -> subprocess.Popen[bytes]:
    """Start the child in a session of its own, behind the gate: it runs with the first line on its stdin.

    With *apart*, stderr is a pipe of its own, and not one with stdout.
    """
    return subprocess.Popen(
        [SHELL, "-c", _GATE, "sh", *argv],
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        start_new_session=True,
        bufsize=0,
    )


def abandon(process: subprocess.Popen[bytes], child: Child) -> None:
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
        self,
        process: subprocess.Popen[bytes],
        child: Child,
        output: Output,
        grace: float,
        conversation: Conversation | None = None,
    ) -> None:
        self._process = process
        self._child = child
        self._output = output
        self._grace = grace
        self._talk = conversation
        self._messages = Lines(self._hear, LONGEST_MESSAGE)
        self._heard_at = time.monotonic()
        self._input = memoryview(b"")
        self._selector = selectors.DefaultSelector()

    def until_end(self, stdin: bytes, limits: Limits, *, leave_daemons: bool) -> tuple[Ended, float]:
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

    def _watch(self, limits: Limits, began: float) -> Ended:
        over_at: float | None = None
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
            self._transfer(TICK_SECONDS)
        return "exited"

    def _ask_to_end(self) -> None:
        """In its own words if it can be talked with, then by SIGTERM to all; the last words of both are read."""
        if self._talk and not self._talk.over:
            self._say(self._talk.stop())
            self._read_on(lambda: self._process.poll() is None and not self._is_all_said())
        send(family(self._child, sure=True), signal.SIGTERM)
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
        except BrokenPipeError:  # it does not want to read: its own affair
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
