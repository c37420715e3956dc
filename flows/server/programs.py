"""Background Python programs of ours: how they are started, what they said, and how they end with their parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path

from irontree.files import make_private
from irontree.processes.containers import without_credentials

LOG_LIMIT = 1_000_000
"""Bytes."""
TURN_OVER_EVERY = 60.0
"""Seconds."""
TAIL = 20
Program = subprocess.Popen[bytes]


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    talk: bool = False,
) -> Program:
    """Run `python -m module` in its own session, with *folder* as its working folder and its output in *log*.

    Of *environment* it gets all but the credential for a forge: neither a server nor a worker calls one.
    A Ctrl-C in our terminal does not reach it, and its pid is its process group. With *talk* its stdin and stdout
    are pipes to us; the end of stdin then also tells it that we are gone.
    """
    make_private(log.parent)
    turn_over_if_long(log)
    pipe = subprocess.PIPE if talk else None
    with open(log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],  # -P: nothing is imported from the working folder
            env=without_credentials(environment),
            cwd=folder,
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            start_new_session=True,
        )


def reap(program: Program) -> None:
    """Let *program* outlive this process, and reap it if it ends earlier."""
    threading.Thread(target=program.wait, daemon=True).start()


def tail(log: Path, *, start: int = 0) -> str:
    """The last of `lines_after`, as one text."""
    return "\n".join(lines_after(log, start)[-TAIL:])


def lines_after(log: Path, start: int) -> list[str]:
    """The lines of *log* after byte *start*, or from its beginning if it was rotated; none if it is missing."""
    if not log.exists():
        return []
    written = log.read_bytes()
    return written[start if start <= len(written) else 0 :].decode(errors="replace").splitlines()


TOLD = "irontree: "
"""Begins a line of a log that is for the people who use the program."""


def tell(sentence: str) -> None:
    """Put it into this program's log, where those who started it find it."""
    sys.stderr.write(f"{TOLD}{sentence}\n")
    sys.stderr.flush()


def told_in(log: Path, start: int) -> tuple[str, ...]:
    """What was told in *log* after byte *start*."""
    return tuple(line.removeprefix(TOLD) for line in lines_after(log, start) if line.startswith(TOLD))


def ended_by(code: int | None) -> str:
    """How a process with that exit code ended, in words: `was killed by SIGKILL`, `ended with exit code 1`."""
    if code is not None and code < 0:
        known = {number.value: number.name for number in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"
    return f"ended with exit code {code}"


def size(log: Path) -> int:
    """The length of *log* in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def keep_short(log: Path) -> None:
    """Rotate *log* whenever it has become long, from a thread; for the process that writes it."""

    def watch() -> None:
        while True:
            time.sleep(TURN_OVER_EVERY)
            turn_over_if_long(log)

    threading.Thread(target=watch, name="log", daemon=True).start()


def turn_over_if_long(log: Path) -> None:
    """Truncate *log* if it is long, after copying it to `.old.log`.

    It stays the same file: processes that append to it, as our programs do, continue at its new beginning.
    """
    if size(log) > LOG_LIMIT:
        with suppress(OSError):  # a full disk has no room for the copy
            shutil.copyfile(log, log.with_suffix(".old.log"))
        with suppress(OSError):
            os.truncate(log, 0)


# --- Ending processes whose parent is gone


RUNNER = "IRONTREE__RUNNER"
"""The pid of our own process that serves the deployment; unset under another worker: its runs may outlive it."""
FINISH = "IRONTREE__FINISH"
"""A path that exists once the user has asked to stop after the current step."""
LOOK_FOR_PARENT_EVERY = 0.2


def end_with_runner(environ: MutableMapping[str, str] = os.environ) -> None:
    """Kill this flow process when the runner that started it is gone; called before its flow, and once is enough.

    Otherwise it would run beside the process that resumes its work. The kernel's own mechanism (PDEATHSIG) exists
    on Linux only and can mistake the end of the parent's thread for the parent's; checking its pid cannot.
    """
    if runner := environ.pop(RUNNER, ""):
        end_with(int(runner), lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with(parent: int, end: Callable[[], None]) -> None:
    """Call *end* in a separate thread once *parent* is no longer the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_FOR_PARENT_EVERY)
        end()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def finish_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to stop after the current step (first Ctrl-C); checked between steps."""
    return FINISH in environ and Path(environ[FINISH]).exists()


# --- Scheduled runs, for which whoever takes them up need not look


WAKE = "IRONTREE__WAKE"
"""The path of a pipe by which our own process that serves the deployment hears of a run."""


def wake(environ: Mapping[str, str] = os.environ) -> None:
    """Have the process that serves the flows look for scheduled runs now, and not with its next look."""
    with suppress(OSError):  # nobody serves here, or is woken more often than he can look
        pipe = os.open(environ.get(WAKE, ""), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b"!")
        finally:
            os.close(pipe)


# --- The beginning of a flow, which its process and whoever started it agree on


BEGIN = "IRONTREE__BEGIN"
"""The path that a flow process takes when its flow begins, and whoever started it when that has taken too long."""


def take(path: Path) -> bool:
    """Create *path*; `False` if somebody else did, or its folder is gone: of two processes, one gets `True`."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def begin(environ: MutableMapping[str, str] = os.environ, *, end: Callable[[], None] | None = None) -> None:
    """Say that the flow of this process begins; *end* the process if it was given up: the run is started again."""
    path = environ.pop(BEGIN, "")
    if path and not take(Path(path)):
        (end or _end_now)()


def _end_now() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
