"""A program as a coding agent: how it is called, watched, read and stopped, whichever program it is.

What it gets, beside a scrubbed environment and the variables that the plan allows by name:

=========================  ==========================================================================
``IRONTREE_PROMPT_FILE``   the prompt as a file, outside the workspace; also ``{prompt_file}`` in the command
``IRONTREE_SUMMARY_FILE``  where it may leave its last words
``IRONTREE_WORKSPACE``     the workspace, its current folder
``IRONTREE_TASK_KEY``      also ``{task_key}``
``IRONTREE_ISSUE``         also ``{issue}``
``IRONTREE_ATTEMPT``       also ``{attempt}``
=========================  ==========================================================================

Its exit code is noted and decides nothing: agent programs exit 0 on a refused log-in (product claim 1).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from os.path import samestat
from pathlib import Path
from typing import BinaryIO

from irontree.agents.reading import Reading
from irontree.clock import SystemClock
from irontree.domain.attempt import Claim
from irontree.domain.plan import AgentSpec
from irontree.ports import AgentResult, AgentTask, Cancellation, Progress
from irontree.processes import Children, Completed, Limits, scrubbed_environment

PROMPT_FILE = "prompt.md"
OUTPUT_FILE = "output.log"
SUMMARY_FILE = "summary.txt"
RESULT_FILE = "result.json"
TAIL_LINES = 20
SUMMARY_CHARACTERS = 500
SUMMARY_BYTES = 64 * 1024
# Shorter values are as likely words as secrets.
SECRET_BYTES = 8
_HIDDEN = b"***"


@dataclass(frozen=True, slots=True)
class Way:
    """How one program is driven: its command line with placeholders, and what its output means.

    `read` takes all lines and the time, `tell` turns one line into words for a person; `settings` are variables that
    are set for it.
    """

    command: tuple[str, ...]
    read: Callable[[Iterable[str], datetime], Reading]
    tell: Callable[[str], str | None]
    settings: Mapping[str, str] = field(default_factory=dict)


class ProgramAgent:
    """The port `CodingAgent` for a program that takes the prompt on stdin or as a file, and runs to its end."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str], way: Way) -> None:
        """Drive it in this way; *environment* is the caller's."""
        self._spec = spec
        self._children = children
        self._environment = environment
        self._way = way

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run the program once; all its processes are gone when this returns. Its transcript is in `task.transcript`.

        Files there: `prompt.md`, `output.log`, `result.json`, and `summary.txt` if the program wrote one.
        """
        task.transcript.mkdir(parents=True, exist_ok=True)
        place = task.transcript.lstat()
        prompt_file = task.transcript / PROMPT_FILE
        prompt_file.write_text(task.prompt, encoding="utf-8")
        with (task.transcript / OUTPUT_FILE).open("w+b") as log:
            ear = _Ear(log, progress, self._way.tell, self._without_secrets)
            done = self._children.run(
                _filled(self._way.command, task, prompt_file),
                cwd=task.workspace,
                environment=self._variables(task, prompt_file),
                limits=Limits(self._spec.wall_seconds, self._spec.stall_seconds, cancel),
                stdin=task.prompt.encode(),
                on_line=ear.hear,
            )
            reading = self._way.read(ear.lines(), SystemClock().now())
        result = self._observed(done, task, reading, ear.told)
        text = json.dumps({"command": self._way.command, **asdict(result)}, indent=2, ensure_ascii=False, default=str)
        with suppress(OSError):  # the program could reach the folder, and may have put anything in its place
            if samestat(task.transcript.lstat(), place):
                _write_anew(task.transcript / RESULT_FILE, f"{text}\n")
        return result

    def _variables(self, task: AgentTask, prompt_file: Path) -> dict[str, str]:
        return {
            **scrubbed_environment(self._environment, self._spec.environment),
            **self._way.settings,
            **task.variables,
            "IRONTREE_PROMPT_FILE": str(prompt_file),
            "IRONTREE_SUMMARY_FILE": str(task.transcript / SUMMARY_FILE),
            "IRONTREE_WORKSPACE": str(task.workspace),
            "IRONTREE_TASK_KEY": task.task_key,
            "IRONTREE_ISSUE": str(task.issue_number),
            "IRONTREE_ATTEMPT": str(task.attempt),
        }

    def _without_secrets(self, text: bytes) -> bytes:
        """Hide the values of the variables that were let through by name: mostly keys of model providers."""
        for name in self._spec.environment:
            value = self._environment.get(name, "").encode()
            if len(value) >= SECRET_BYTES:
                text = text.replace(value, _HIDDEN)
        return text

    def _observed(self, done: Completed, task: AgentTask, reading: Reading, told: Iterable[str]) -> AgentResult:
        said = "\n".join(told) if done.ended != "not_started" else done.output
        words = self._without_secrets(_last_words(task.transcript / SUMMARY_FILE)).decode("utf-8", "replace").strip()
        claim = reading.claim or (Claim(None, "summary", words) if words else None)
        return AgentResult(
            ended=done.ended,
            exit_code=done.exit_code,
            seconds=round(done.seconds, 3),
            output_tail=said,
            claim=replace(claim, words=claim.words.strip()[:SUMMARY_CHARACTERS]) if claim else None,
            failure=reading.failure,
            retry_at=reading.retry_at,
            usage=reading.usage,
            session=reading.session,
            denied=reading.denied,
        )


class _Ear:
    """Takes each line of output: into the log, to who watches, and the newest for the end."""

    def __init__(
        self,
        log: BinaryIO,
        progress: Progress,
        tell: Callable[[str], str | None],
        without_secrets: Callable[[bytes], bytes],
    ) -> None:
        self._log = log
        self._progress = progress
        self._tell = tell
        self._without_secrets = without_secrets
        self.told: deque[str] = deque(maxlen=TAIL_LINES)

    def hear(self, line: bytes) -> None:
        """Take one line."""
        clean = self._without_secrets(line)
        self._log.write(clean)
        words = self._tell(clean.decode("utf-8", "replace").rstrip())
        for told in (words or "").splitlines():
            self.told.append(told)
            self._progress.note(told)

    def lines(self) -> Iterable[str]:
        """All lines again, through our own handle: what the program did to the file's name does not matter."""
        self._log.seek(0)
        return (line.decode("utf-8", "replace") for line in self._log)


def _filled(command: tuple[str, ...], task: AgentTask, prompt_file: Path) -> list[str]:
    """The words with our placeholders filled in; other braces are the program's own."""
    values = {
        "{prompt_file}": str(prompt_file),
        "{task_key}": task.task_key,
        "{issue}": str(task.issue_number),
        "{attempt}": str(task.attempt),
    }
    words = list(command)
    for placeholder, value in values.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def _last_words(path: Path) -> bytes:
    """What the program left as its summary: the beginning of a plain file, nothing of a pipe or a device."""
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(SUMMARY_BYTES)
    return b""


def _write_anew(path: Path, text: str) -> None:
    """Write a file of ours, never through a link that somebody left there."""
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
