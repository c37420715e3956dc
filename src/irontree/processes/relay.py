"""Relay all lines between a program and the process that started us, and observe them on the way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from irontree.errors import EnvironmentRefused

Channel = Literal["heard", "said", "complained"]
_SIGNALLED = 128


def relay(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], on_line: Callable[[Channel, bytes], None]
) -> int:
    """Run a program on our own stdin, stdout and stderr; returns its exit code, 128 and more if ended by a signal.

    *on_line* gets each line that it heard, said or complained, from several threads. For a process whose only work
    this is: signals reach the program with us, and no longer end us before it. Raises EnvironmentRefused if it is
    missing.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(argv, cwd=cwd, env=dict(environment), stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise EnvironmentRefused(f"{argv[0]}: {error.strerror}", remedy=f"install {argv[0]}") from error
    threads = [
        _copying(sys.stdin.buffer, process.stdin, lambda line: on_line("heard", line), daemon=True),
        _copying(process.stderr, sys.stderr.buffer, lambda line: on_line("complained", line)),
        _copying(process.stdout, sys.stdout.buffer, lambda line: on_line("said", line)),
    ]
    for thread in threads[1:]:  # our stdin may never end
        thread.join()
    code = process.wait()
    return code if code >= 0 else _SIGNALLED - code


def _copying(
    source: IO[bytes] | None, sink: IO[bytes] | None, see: Callable[[bytes], None], *, daemon: bool = False
) -> threading.Thread:
    thread = threading.Thread(target=_copy, args=(source, sink, see), daemon=daemon)
    thread.start()
    return thread


def _copy(source: IO[bytes], sink: IO[bytes], see: Callable[[bytes], None]) -> None:
    """Pass each line on; once the reader is gone, it is only seen."""
    listening = True
    for line in source:
        see(line)
        listening = listening and _pass_on(line, sink)
    if source is sys.stdin.buffer:
        with suppress(BrokenPipeError):
            sink.close()


def _pass_on(line: bytes, sink: IO[bytes]) -> bool:
    try:
        sink.write(line)
        sink.flush()
    except BrokenPipeError:
        return False
    return True
