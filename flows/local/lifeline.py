"""Ends processes whose parent is gone: a flow without its runner, a runner without its command (rulings, Crashes)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

RUNNER = "IRONTREE__RUNNER"
"""The pid of our own process that serves the deployment; unset under another worker: its runs may outlive it."""
FINISH = "IRONTREE__FINISH"
"""A path that exists once the person asked to stop after the present step."""
LOOK_EVERY = 0.2


def end_with_runner(environ: Mapping[str, str] = os.environ) -> None:
    """Kill this flow process when the runner that started it is gone; the first line of every flow.

    Otherwise it would go on beside the one that takes its work up again. The kernel's own way (PDEATHSIG) exists
    on Linux alone, and a check of the parent's pid has no thread whose end it could mistake for the parent's.
    """
    if runner := environ.get(RUNNER):
        end_with(int(runner), lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with(parent: int, end: Callable[[], None]) -> None:
    """Call *end* in a thread of its own once *parent* is no longer the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        end()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def finish_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to stop after the present step (first Ctrl-C); asked between steps."""
    return FINISH in environ and Path(environ[FINISH]).exists()
