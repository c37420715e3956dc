"""A coding agent that replays prepared patches: `python -m irontree.agents.replay PATCHES_DIR`.

It is run through the `command` adapter like any other agent, and calls no model. For task `KEY`, attempt `N`
it applies `PATCHES_DIR/KEY/N.patch` to the current folder, or the patch of the highest attempt below N; an empty
patch changes nothing. `N.say` beside the patch is what it says first. Use it to see the machinery at work, and to
try changes of the machinery on a history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from irontree.processes import capture

APPLY_SECONDS = 60


def main(arguments: Sequence[str], environment: Mapping[str, str], workspace: Path) -> int:
    """Replay the patch of the task and attempt that the environment names; 0, or 1 if that was not possible."""
    options = _parser().parse_args(arguments)
    try:
        task_key, attempt = environment["IRONTREE_TASK_KEY"], int(environment["IRONTREE_ATTEMPT"])
    except (KeyError, ValueError):
        return _fail("IRONTREE_TASK_KEY and IRONTREE_ATTEMPT say what to replay; run me through `irontree`")
    patch = find_patch(options.patches, task_key, attempt)
    if patch is None:
        return _fail(f"no prepared patch for {task_key}, attempt {attempt}, in {options.patches}")
    _say(f"replaying prepared patch {task_key}/{patch.name} (attempt {attempt}); no model is called")
    _speak(patch.with_suffix(".say"), options.pace)
    return _apply(patch, environment, workspace)


def find_patch(patches: Path, task_key: str, attempt: int) -> Path | None:
    """The patch of that attempt, or of the highest one before it; None if there is none."""
    prepared = {int(path.stem): path for path in (patches / task_key).glob("*.patch") if path.stem.isdecimal()}
    fitting = [number for number in prepared if number <= attempt]
    return prepared[max(fitting)] if fitting else None


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
    done = capture(
        ["git", "apply", "--verbose", "--whitespace=nowarn", str(patch.resolve())],
        cwd=workspace,
        environment=environment,
        seconds=APPLY_SECONDS,
    )
    _say(done.stderr.decode("utf-8", "replace").strip())
    return _fail(f"{patch.name} does not apply to this tree") if done.exit_code else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fail(text: str) -> int:
    _say(f"replay: {text}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, Path.cwd()))
