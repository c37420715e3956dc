"""Starts our own Python programs beside this process: the private server, and the one that serves deployments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

LOG_LIMIT = 1_000_000
"""Bytes."""
TURN_OVER_EVERY = 60.0
"""Seconds."""
TAIL = 20


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    home: Path,
    log: Path,
    talk: bool = False,
) -> subprocess.Popen[bytes]:
    """Run `python -m module` in a session of its own, with *home* as its working folder and its output in *log*.

    A Ctrl-C in our terminal does not reach it, and its process group is its pid. With *talk* its stdin and stdout
    are pipes to us; stdin then also tells it, by its end, that we are gone.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    turn_over_if_long(log)
    pipe = subprocess.PIPE if talk else None
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],  # -P: nothing is imported from the working folder
            env=environment,
            cwd=home,
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or output,
            stderr=output,
            start_new_session=True,
        )


def reap(program: subprocess.Popen[bytes]) -> None:
    """Let *program* outlive this process, and take note of its end if it comes earlier."""
    threading.Thread(target=program.wait, daemon=True).start()


def tail(log: Path, *, start: int = 0) -> str:
    """The last lines of *log* behind byte *start*, wherever where it was begun anew; empty if there is none."""
    if not log.exists():
        return ""
    written = log.read_bytes()
    lines = written[start if start <= len(written) else 0 :].decode(errors="replace").splitlines()
    return "\n".join(lines[-TAIL:])


def size(log: Path) -> int:
    """The length of *log* in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def keep_short(log: Path) -> None:
    """Turn *log* over whenever it has become long, from a thread of its own; for the process that writes it."""

    def watch() -> None:
        while True:
            time.sleep(TURN_OVER_EVERY)
            turn_over_if_long(log)

    threading.Thread(target=watch, name="log", daemon=True).start()


def turn_over_if_long(log: Path) -> None:
    """Begin *log* anew if it is long; what it had is `.old.log` then.

    It stays the same file: whoever has it open to append to it, as our programs do, goes on at its new beginning.
    """
    if size(log) > LOG_LIMIT:
        with suppress(OSError):  # a full disk has no room for the copy
            shutil.copyfile(log, log.with_suffix(".old.log"))
        with suppress(OSError):
            os.truncate(log, 0)
