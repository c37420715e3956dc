"""(j) How long a person waits from an approval until the agent begins, the server's start included."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from benchmarks.measure import Comparison, alternate, pairs_of
from benchmarks.programs import IRONTREE
from benchmarks.projects import lay_out, write_document
from benchmarks.sandbox import Effort
from irontree.app import App
from irontree.flows.server.connection import ServerState, state_folder
from irontree.services.proposals.sources import propose

AFTER_YES, AFTER_APPROVE = "j: from yes to the first attempt", "j: from --approve to the first attempt"
READS_SECONDS, READS_QUICKLY = 5.0, 0.0
"""How long the plan is on screen before somebody says yes."""
YES_SECONDS, MORE_SECONDS = 3.0, 1.5
"""What may pass after the yes; and after `--approve`, beyond the start of a server."""
LOOK_EVERY, PATIENCE = 0.01, 120.0
QUESTION, READ_BYTES = b"[yes/no]", 65536
_BARE_START = """\
import os
from irontree.flows.server.connection import state_folder
from irontree.flows.server.private import LocalServer
LocalServer(state_folder(), os.environ).start().wait_ready()
"""


def compare(effort: Effort) -> Iterator[Comparison]:
    """Each time a new repository, and no server that runs already."""
    numbers = count(1)
    reads = READS_QUICKLY if effort.quick else READS_SECONDS
    said = alternate(
        lambda: _after_yes(effort, next(numbers), reads), _three_seconds, effort.pairs, effort.watching(AFTER_YES)
    )
    yield Comparison(AFTER_YES, 1.0, pairs_of(said, float))
    given = alternate(
        lambda: _after_approve(effort, next(numbers)), _bare_start, effort.pairs, effort.watching(AFTER_APPROVE)
    )
    yield Comparison(AFTER_APPROVE, 1.0, pairs_of(given, float))


def _three_seconds() -> float:
    return YES_SECONDS


def _bare_start() -> float:
    with _no_server():
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", _BARE_START], check=True)
        return time.monotonic() - began + MORE_SECONDS


def _after_approve(effort: Effort, number: int) -> float:
    app, document = _project(effort, number)
    words = ("task", document.name, "--approve", propose(app, document).name, "--no-preflight")
    with _no_server():
        began = time.monotonic()
        with _at_work(app, words, stdin=subprocess.DEVNULL, output=subprocess.DEVNULL):
            return _first_attempt(app) - began


def _after_yes(effort: Effort, number: int, reads: float) -> float:
    app, document = _project(effort, number)
    words = ("task", document.name, "--no-preflight")
    with _no_server(), _terminal() as (ours, theirs, said), _at_work(app, words, stdin=theirs, output=theirs):
        _wait_for(lambda: QUESTION in said)
        time.sleep(reads)
        began = time.monotonic()
        os.write(ours, b"yes\n")
        return _first_attempt(app) - began


def _project(effort: Effort, number: int) -> tuple[App, Path]:
    app = lay_out(effort.folder, f"first-{number}")
    return app, write_document(app, "SPEC", ("only",))


@contextmanager
def _no_server() -> Iterator[None]:
    """No server that was started in the block is left after it."""
    yield
    state = ServerState(state_folder())
    if address := state.address():
        os.kill(address.pid, signal.SIGTERM)
    _wait_for(lambda: not state.lives())


@contextmanager
def _terminal() -> Iterator[tuple[int, int, bytearray]]:
    """Both sides of a terminal, and what the other side says, which is read all the time."""
    ours, theirs = pty.openpty()
    said = bytearray()

    def listen() -> None:
        with suppress(OSError):  # the other side is closed
            while True:
                said.extend(os.read(ours, READ_BYTES))

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield ours, theirs, said
    finally:
        os.close(theirs)
        listener.join()
        os.close(ours)


@contextmanager
def _at_work(app: App, words: Sequence[str], *, stdin: int, output: int) -> Iterator[None]:
    """That command in the repository, until it has ended; raises RuntimeError unless it ends with 0."""
    root = app.repository.root
    process = subprocess.Popen([IRONTREE, *words], cwd=root, stdin=stdin, stdout=output, stderr=output)
    try:
        yield
        if process.wait():
            raise RuntimeError(f"{' '.join(words)} ended with {process.returncode} in {root}")
    finally:
        process.kill()
        process.wait()


def _first_attempt(app: App) -> float:
    """When the log said that the first attempt has begun."""
    events = app.repository.root / ".mino" / "events"
    _wait_for(lambda: any(events.glob("issue-1/*-run-started.yml")))
    return time.monotonic()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("nothing has happened for so long")
        time.sleep(LOOK_EVERY)
