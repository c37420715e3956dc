"""What is kept of one attempt, and what its program is told: shared by the adapters that start programs."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from irontree.agents.reading import UsageCount, says_nothing
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Usage
from irontree.domain.text import TRUNCATION_MARKER, secret_values
from irontree.files import ScratchFolder, disk_errors, make_anew, read_beneath, write_beneath
from irontree.ports import AgentResult, AgentTask, Progress
from irontree.processes.containers import scrubbed_environment
from irontree.processes.redaction import redacted
from irontree.processes.running import LONGEST_WORD

PROMPT_FILE = "prompt.md"
OUTPUT_FILE = "output.log"
SUMMARY_FILE = "summary.txt"
RESULT_FILE = "result.json"
# Shorter values are as likely words as secrets.
SECRET_BYTES = 8
TAIL_LINES = 20
LOG_BYTES = 64 * 1024 * 1024
"""Of an attempt's output this much is kept, half of it from the beginning and half from the end."""
SUMMARY_BYTES = 64 * 1024
_HIDDEN = b"***"


class Transcript:
    """The folder of one attempt, which only we write: `prompt.md`, `output.log`, `result.json`, `summary.txt`.

    Its program has a folder of its own, *shared* with us, with the prompt in it. At the end we take what it left as its
    summary; all else there is removed.
    """

    def __init__(self, task: AgentTask, shared: Path) -> None:
        """Lay both out, with the prompt in them. Raises EnvironmentRefused."""
        self._folder, self.shared = task.transcript, shared
        with disk_errors(self._folder):
            for folder in (self._folder, shared):
                make_anew(folder)
                write_beneath(folder, PROMPT_FILE, task.prompt.encode())

    @property
    def prompt_file(self) -> Path:
        """Where the program finds the prompt."""
        return self.shared / PROMPT_FILE

    @property
    def summary_file(self) -> Path:
        """Where the program may leave its last words."""
        return self.shared / SUMMARY_FILE

    @contextmanager
    def open_output(self) -> Iterator[BoundedLog]:
        """The log of what it says, to be written and read."""
        with (self._folder / OUTPUT_FILE).open("x+b") as file:
            log = BoundedLog(file)
            try:
                yield log
            finally:
                log.finish()

    def last_words(self, cleaned: Callable[[bytes], bytes]) -> bytes:
        """What the program left as its summary, *cleaned*, and kept.

        It is the beginning of a plain file, nothing of a link, pipe or device. The last word of a text that was cut is
        left out: it may be half of a secret.
        """
        said = read_beneath(self.shared, SUMMARY_FILE, SUMMARY_BYTES + 1)
        if said is None:
            return b""
        if len(said) > SUMMARY_BYTES:
            kept, end = said[: SUMMARY_BYTES - LONGEST_WORD], said[SUMMARY_BYTES - LONGEST_WORD : SUMMARY_BYTES]
            said = kept + end[: len(end) - len(re.split(rb"\s", end)[-1])]
        words = cleaned(said)
        self._keep(SUMMARY_FILE, words)
        return words

    def conclude(self, command: Sequence[str], result: AgentResult) -> None:
        """Keep the result."""
        kept = json.dumps({"command": command, **asdict(result)}, indent=2, ensure_ascii=False, default=str)
        self._keep(RESULT_FILE, f"{kept}\n".encode(errors="replace"))

    def _keep(self, name: str, data: bytes) -> None:
        with suppress(OSError):  # a program that nothing confines may have put anything in the folder's place
            write_beneath(self._folder, name, data)


@contextmanager
def begin(task: AgentTask) -> Iterator[Transcript]:
    """The transcript of an attempt that begins; the folder that its program shares is gone at the end.

    It is beside the workspace: in the user's checkout, their tools would find what is in it. Raises EnvironmentRefused.
    """
    with disk_errors(task.workspace):
        scratch = ScratchFolder("agent", task.workspace.parent)
    with scratch:
        shared = scratch.path / "shared"  # not the folder itself: its lock tells that we live
        yield Transcript(task, shared)


class Surroundings:
    """What the program of one agent gets of the caller's environment, and which values of it are secrets."""

    def __init__(
        self, spec: AgentSpec, environment: Mapping[str, str], settings: Mapping[str, str] | None = None
    ) -> None:
        """Take the caller's *environment*, and as *settings* what is always set for this program."""
        self._allowed = spec.environment
        self._environment = environment
        self._settings = settings or {}
        self._secrets = secret_values(environment)

    def variables(self, task: AgentTask, transcript: Transcript) -> dict[str, str]:
        """Its environment: scrubbed, with the names that the plan allows, and what it works on."""
        return {
            **self.scrubbed(),
            **task.variables,
            "IRONTREE_PROMPT_FILE": str(transcript.prompt_file),
            "IRONTREE_SUMMARY_FILE": str(transcript.summary_file),
            "IRONTREE_WORKSPACE": str(task.workspace),
            "IRONTREE_TASK_KEY": task.task_key,
            "IRONTREE_ISSUE": str(task.issue_number),
            "IRONTREE_ATTEMPT": str(task.attempt),
        }

    def scrubbed(self) -> dict[str, str]:
        """What it gets of the caller's environment, and what is always set for it."""
        return {**scrubbed_environment(self._environment, self._allowed), **self._settings}

    def without_secrets(self, text: bytes) -> bytes:
        """Hide what looks like a secret, and the values of the variables that were let through by name."""
        for name in self._allowed:
            value = self._environment.get(name, "").encode()
            if len(value) >= SECRET_BYTES:
                text = text.replace(value, _HIDDEN)
        return redacted(text.decode("utf-8", "surrogateescape"), self._secrets)


class BoundedLog:
    """A log of which the middle is left out once it is longer than *most* bytes; the end is written by `finish`."""

    def __init__(self, file: BinaryIO, most: int = LOG_BYTES) -> None:
        self._file = file
        self._room = self._half = most // 2
        self._tail = deque[bytes]()
        self._size = 0
        self._cut = False

    def write(self, line: bytes) -> None:
        """Add a line."""
        if self._room >= len(line) and not self._tail:
            self._room -= len(line)
            self._file.write(line)
            return
        self._tail.append(line)
        self._size += len(line)
        while self._size > self._half:
            self._size -= len(self._tail.popleft())
            self._cut = True

    def finish(self) -> None:
        """Write the end."""
        if self._cut:
            self._file.write(f"\n{TRUNCATION_MARKER}\n".encode())
        self._file.writelines(self._tail)
        self._tail.clear()
        self._cut = False

    def lines(self) -> Iterable[bytes]:
        """All that is kept, through our own handle: what the program did to the file's name does not matter."""
        self.finish()
        self._file.seek(0)
        return self._file


@dataclass
class OutputReader:
    """Takes each line of output: into the log, to the progress shown, and the newest for the result.

    *tell* turns one line into words for a person, or None; *add* adds what it says of the `usage` so far.
    """

    log: BoundedLog
    progress: Progress
    tell: Callable[[str], str | None]
    surroundings: Surroundings
    add: UsageCount = says_nothing
    told: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    usage: Usage = field(default_factory=Usage)

    def hear(self, line: bytes) -> None:
        """Take one line."""
        clean = self.surroundings.without_secrets(line)
        self.log.write(clean)
        text = clean.decode("utf-8", "replace").rstrip()
        self.usage = self.add(self.usage, text)
        words = self.tell(text)
        for told in (words or "").splitlines():
            self.told.append(told)
            self.progress.note(told)

    def lines(self) -> Iterable[str]:
        """All lines that are kept, again."""
        return (line.decode("utf-8", "replace") for line in self.log.lines())


def filled(command: Sequence[str], task: AgentTask, prompt_file: Path) -> list[str]:
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
