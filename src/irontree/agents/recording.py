"""Record a session of any agent program: `irontree agents record DIR -- COMMAND...`.

It stands in `agent.command` before the program itself: what the program hears and says goes through, and a copy of
it into DIR with the changes that it made (see `tape`). `irontree.agents.replay` plays it again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from irontree.agents.tape import Recording, Tape
from irontree.errors import EnvironmentRefused
from irontree.processes import capture
from irontree.processes.relay import relay

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
    with tempfile.TemporaryDirectory() as scratch, recording.session.open("w", encoding="utf-8") as file:
        camera = _Camera(workspace, Path(scratch), environment)
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
    """Values of variables that are called like secrets."""
    named = (value for name, value in environment.items() if _SECRET.search(name))
    return [value for value in named if len(value) >= SECRET_CHARACTERS]
