"""What a terminal does, for tests: a screen that remembers, a follower, and `irontree` as a program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from irontree.app import App
from irontree.cli.answer import prepare
from irontree.cli.follow import Follower, ShownSoFar, StillOpen
from irontree.flows.runs.forms import FormQuestion as Asked
from irontree.flows.serve.session import TerminalSession
from irontree.services.answers.answers import Answer
from irontree.services.questions.questions import Question
from tests.prefect.toys import PATIENCE, wait_until


@dataclass
class ListScreen:
    """Remembers what it was told to say; nobody is there to be asked."""

    lines: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def busy(self, text: str) -> None:
        pass

    def ask(self, question: Question, asked: Asked, url: str, still_open: StillOpen) -> Answer | None:
        self.asked.append(asked)
        return None


def follower(app: App, session: TerminalSession, loop_id: str, *answers: str) -> Follower:
    """Follows the loop with these prepared answers."""
    return Follower(app, session, loop_id, ListScreen(), list(prepare(answers)), "Ada", ShownSoFar.all_of(app, loop_id))


def follow(app: App, session: TerminalSession, loop_id: str, *answers: str) -> tuple[str, ListScreen]:
    """Set the loop going and follow it; how it ended, and what was said."""
    session.runs.set_going(loop_id)
    made = follower(app, session, loop_id, *answers)
    ended = made.follow()
    session.come_to_rest()
    return ended, made.screen


@dataclass
class Typed:
    """`irontree` as somebody started it, its output in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_until_it_says(self, text: str, *, patience: float = PATIENCE) -> None:
        wait_until(lambda: text in self.said or self.process.poll() is not None, patience=patience)
        assert text in self.said, self.said

    def wait_until_there_is(self, path: Path, *, patience: float = PATIENCE) -> None:
        """A failure shows what it said, and the logs of the processes that serve."""
        with suppress(AssertionError):
            wait_until(lambda: path.exists() or self.process.poll() is not None, patience=patience)
        logs = (log.read_text(errors="replace")[-5000:] for log in self.log.parent.rglob("serving-*.log"))
        assert path.exists(), "\n".join((self.said, *logs))

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout=120)


@contextmanager
def typed(root: Path, words: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Typed]:
    """Type that command in the repository at *root*; whatever becomes of it, it ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "irontree", "-C", str(root), *words],
            env={**os.environ, **environment},
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Typed(process, log)
    finally:
        process.kill()
        process.wait()
