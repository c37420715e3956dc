"""A coding agent that replays prepared patches and recorded sessions: `irontree agents replay DIR`.

It is run through the `command` adapter like any other agent (or through the one that the session was recorded
with), and calls no model. For task `KEY`, attempt `N` it applies `DIR/KEY/N.patch` to the current folder, or the patch
of the highest attempt below N; an empty patch changes nothing. `N.say` beside the patch is what it says first; a
recording (see `tape`) is said to the letter instead, each line in its turn with what the program was told. Use it to
see the machinery at work, and to try changes of the machinery on a history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from irontree.agents.tape import Line, Recording
from irontree.processes import Captured, capture

APPLY_SECONDS = 60


def main(arguments: Sequence[str], environment: Mapping[str, str], workspace: Path) -> int:
    """Replay what the command line names; the program's exit code."""
    options = _parser().parse_args(arguments)
    return replay(options.patches, options.pace, environment, workspace)


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
    return _apply(patch, environment, workspace)


def find_patch(patches: Path, task_key: str, attempt: int) -> Path | None:
    """The patch of that attempt, or of the highest one before it; None if there is none."""
    prepared = {int(path.stem): path for path in (patches / task_key).glob("*.patch") if path.stem.isdecimal()}
    fitting = [number for number in prepared if number <= attempt]
    return prepared[max(fitting)] if fitting else None


def _play(recording: Recording, pace: float, environment: Mapping[str, str], workspace: Path) -> int:
    """Say a recorded session to the letter. The changes are there before its last words: those may end the talk."""
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m irontree.agents.replay", description="Replay prepared patches.")
    parser.add_argument("patches", type=Path, help="folder with TASK_KEY/ATTEMPT.patch")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="take that long, to be watched")
    return parser


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, Path.cwd()))
