"""Recorded sessions of agent programs: recording one, its files on disk, and the agent that replays it.

`N.session.jsonl`   one object a line: `after` (seconds from the start) and what was `heard` on stdin, `said` on
                    stdout or `complained` on stderr, a line of text each
`N.patch`           what was different in the work tree at the end
`N.result.json`     exit code, seconds and command; without it, the session was cut off

It stands in `agent.command` before the program itself: what the program hears and says goes through, and a copy of
it into DIR with the changes that it made (see `Tape`). `replay` plays it again.

It is run through the `command` adapter like any other agent (or through the one that the session was recorded
with), and calls no model. For task `KEY`, attempt `N` it applies `DIR/KEY/N.patch` to the current folder, or the patch
of the highest attempt below N; an empty patch changes nothing. `N.say` beside the patch is what it says first; a
recording (see `Tape`) is said to the letter instead, each line in its turn with what the program was told. Use it to
see the machinery at work, and to try changes of the machinery on a history.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from irontree.errors import EnvironmentRefused
from irontree.files import ScratchFolder
from irontree.processes.relay import Channel, relay
from irontree.processes.running import Captured, capture

CHANNELS: Final[tuple[Channel, ...]] = ("heard", "said", "complained")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a session, without its end; *after* in seconds."""

    after: float
    channel: Channel
    text: str


@dataclass(frozen=True, slots=True)
class Recording:
    """Where one session is: the files beginning with its attempt's number."""

    folder: Path
    attempt: int

    @property
    def session(self) -> Path:
        """Its lines."""
        return self.folder / f"{self.attempt}.session.jsonl"

    @property
    def patch(self) -> Path:
        """Its changes."""
        return self.folder / f"{self.attempt}.patch"

    @property
    def result(self) -> Path:
        """Its end."""
        return self.folder / f"{self.attempt}.result.json"

    def lines(self) -> Iterator[Line]:
        """What was heard and said, in that order; a last line that was cut off is left out."""
        for text in self.session.read_text(encoding="utf-8").splitlines():
            try:
                found = json.loads(text)
            except ValueError:
                return
            channel = next(channel for channel in CHANNELS if channel in found)
            yield Line(found["after"], channel, found[channel])

    def exit_code(self) -> int | None:
        """How its program ended; None if the session was cut off."""
        if not self.result.is_file():
            return None
        found: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        return int(found["exit_code"])


class Tape:
    """Writes lines down as they come, from several threads."""

    def __init__(self, file: TextIO, secrets: Sequence[str]) -> None:
        self._file = file
        self._secrets = secrets
        self._began = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return round(time.monotonic() - self._began, 3)

    def note(self, channel: Channel, line: bytes) -> None:
        """Write one line down, its secrets hidden."""
        text = line.decode("utf-8", "replace").removesuffix("\n")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        with self._lock:
            if self._file.closed:  # said to a program that has ended
                return
            self._file.write(f"{json.dumps({'after': self.seconds, channel: text}, ensure_ascii=False)}\n")
            self._file.flush()


# --- Record a session of any agent program: `irontree agents record DIR -- COMMAND...`


GIT_SECONDS: Final = 120
SECRET_CHARACTERS: Final = 8
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_DIFF: Final = (
    *("-c", "core.quotePath=true", "diff", "--binary", "--full-index", "--no-renames", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
)


def record(recording: Recording, command: Sequence[str], environment: Mapping[str, str], workspace: Path) -> int:
    """Run *command* in *workspace* and record it; its exit code, 128 and more for one that a signal ended.

    Raises EnvironmentRefused where *workspace* is no git work tree or the program is missing.
    """
    recording.folder.mkdir(parents=True, exist_ok=True)
    recording.result.unlink(missing_ok=True)
    with ScratchFolder("record") as scratch, recording.session.open("w", encoding="utf-8") as file:
        camera = _Camera(workspace, scratch.path, environment)
        before = camera.tree()
        tape = Tape(file, _secrets(environment))
        code = relay(command, cwd=workspace, environment=environment, on_line=tape.note)
        recording.patch.write_bytes(camera.difference(before, camera.tree()))
        result = {"exit_code": code, "seconds": tape.seconds, "command": list(command)}
        recording.result.write_text(f"{json.dumps(result, indent=2, ensure_ascii=False)}\n", encoding="utf-8")
    return code


class _Camera:
    """Sees the work tree as git would commit it, without touching the repository's index or objects."""

    def __init__(self, workspace: Path, scratch: Path, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environment = dict(environment)
        objects = Path(os.fsdecode(self._git("rev-parse", "--git-path", "objects")).strip())
        (scratch / "objects").mkdir()
        self._environment |= {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((workspace / objects).resolve()),
        }

    def tree(self) -> str:
        """The tree of all that is not ignored."""
        self._git("add", "--all")
        return self._git("write-tree").decode().strip()

    def difference(self, before: str, after: str) -> bytes:
        """The patch from one tree to another, binary files included."""
        return self._git(*_DIFF, before, after)

    def _git(self, *words: str) -> bytes:
        done = capture(["git", *words], cwd=self._workspace, environment=self._environment, seconds=GIT_SECONDS)
        if done.exit_code:
            raise EnvironmentRefused(
                f"{self._workspace}: git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()}",
                remedy="record in the work tree of a git repository",
            )
        return done.stdout


def _secrets(environment: Mapping[str, str]) -> list[str]:
    """Values of variables whose names suggest a secret."""
    named = (value for name, value in environment.items() if _SECRET.search(name))
    return [value for value in named if len(value) >= SECRET_CHARACTERS]


# --- A coding agent that replays prepared patches and recorded sessions: `irontree agents replay DIR`


APPLY_SECONDS = 60
_ANSWERS = ("IRONTREE_ANSWER_FILE", "IRONTREE_ROUND_FILE")


def replay(patches: Path, pace: float, environment: Mapping[str, str], workspace: Path) -> int:
    """Replay the task and attempt that the environment names, over *pace* seconds, in *workspace*.

    The exit code: 0, or the recorded one; 1 if there is nothing to replay, or the patch does not apply.
    """
    try:
        task_key, attempt = environment["IRONTREE_TASK_KEY"], int(environment["IRONTREE_ATTEMPT"])
    except (KeyError, ValueError):
        return _fail("IRONTREE_TASK_KEY and IRONTREE_ATTEMPT say what to replay; run me through `irontree`")
    patch = find_patch(patches, task_key, attempt)
    if patch is None:
        return _fail(f"no prepared patch for {task_key}, attempt {attempt}, in {patches}")
    recording = Recording(patch.parent, int(patch.stem))
    if recording.session.is_file():
        return _play(recording, pace, environment, workspace)
    _say(f"replaying prepared patch {task_key}/{patch.name} (attempt {attempt}); no model is called")
    _speak(patch.with_suffix(".say"), pace)
    if (answer := patch.with_suffix(".answer")).is_file():
        _answer(answer, environment)
    return _apply(patch, environment, workspace)


def _answer(prepared: Path, environment: Mapping[str, str]) -> None:
    """Write the prepared answer where a member of a team is asked to."""
    for name in _ANSWERS:
        if name in environment:
            Path(environment[name]).write_bytes(prepared.read_bytes())


def find_patch(patches: Path, task_key: str, attempt: int) -> Path | None:
    """The patch of that attempt, or of the highest one before it; None if there is none."""
    prepared = {int(path.stem): path for path in (patches / task_key).glob("*.patch") if path.stem.isdecimal()}
    fitting = [number for number in prepared if number <= attempt]
    return prepared[max(fitting)] if fitting else None


def _play(recording: Recording, pace: float, environment: Mapping[str, str], workspace: Path) -> int:
    """Replay a recorded session exactly. Its patch is applied before its last lines, which may end the session."""
    code = recording.exit_code()
    if code is None:
        return _fail(f"{recording.session} was cut off: record it again")
    _complain(f"replaying {recording.session}; no model is called")
    lines = list(recording.lines())
    last = max((number for number, line in enumerate(lines) if line.channel == "said"), default=len(lines))
    _perform(_paced(lines[:last], pace))
    failed = recording.patch.stat().st_size and _applied(recording.patch, environment, workspace).exit_code
    if failed:
        _complain(f"replay: {recording.patch} does not apply to this tree")
        return 1
    _perform(iter(lines[last:]))
    return code


def _paced(lines: Sequence[Line], pace: float) -> Iterator[Line]:
    """The lines, at the times they came, stretched or shrunk to *pace* seconds in all."""
    whole = lines[-1].after if lines else 0
    before = 0.0
    for line in lines:
        time.sleep(pace * (line.after - before) / whole if whole else 0)
        before = line.after
        yield line


def _perform(lines: Iterator[Line]) -> None:
    """Say what was said; where the program was told something, wait for that."""
    for line in lines:
        match line.channel:
            case "heard":
                sys.stdin.readline()
            case "said":
                _say(line.text)
            case "complained":
                _complain(line.text)


def _speak(script: Path, pace: float) -> None:
    """Say the prepared lines, spread over *pace* seconds."""
    lines = script.read_text(encoding="utf-8").splitlines() if script.is_file() else []
    for line in lines:
        _say(line)
        time.sleep(pace / len(lines))
    if not lines:
        time.sleep(pace)


def _apply(patch: Path, environment: Mapping[str, str], workspace: Path) -> int:
    if not patch.read_bytes().strip():
        _say("the patch is empty: nothing to change")
        return 0
    done = _applied(patch, environment, workspace)
    _say(done.stderr.decode("utf-8", "replace").strip())
    return _fail(f"{patch.name} does not apply to this tree") if done.exit_code else 0


def _applied(patch: Path, environment: Mapping[str, str], workspace: Path) -> Captured:
    words = ["git", "apply", "--verbose", "--whitespace=nowarn", str(patch.resolve())]
    return capture(words, cwd=workspace, environment=environment, seconds=APPLY_SECONDS)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _fail(text: str) -> int:
    _say(f"replay: {text}")
    return 1
