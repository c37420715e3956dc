"""The shipped double of `CheckRunner`: outcomes are what a test says they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from irontree.domain.results import CheckResult
from irontree.ports import Cancellation, Progress

Judge = Callable[[str, Path], int]


class ScriptedCheckRunner:
    """Asks *judge* (command, workspace -> exit code) instead of a shell; *commands* is what it was asked to run."""

    def __init__(self, judge: Judge = lambda _command, _workspace: 0, *, warnings: tuple[str, ...] = ()) -> None:
        self._judge = judge
        self._warnings = warnings
        self.commands: list[str] = []

    def run(
        self,
        name: str,
        command: str,
        *,
        workspace: Path,
        seconds: int,  # noqa: ARG002 - a double takes no time
        variables: Mapping[str, str],  # noqa: ARG002 - nor an environment
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """End at once with the exit code that the judge gives, unless asked to stop."""
        stopped = cancel.is_set()
        if not stopped:
            self.commands.append(command)
            progress.note(f"scripted check {name}")
        output = "" if stopped else f"{name}\n"
        return CheckResult(
            name=name,
            command=command,
            ended="cancelled" if stopped else "exited",
            exit_code=None if stopped else self._judge(command, workspace),
            seconds=0.0,
            output=output,
            output_digest=hashlib.sha256(output.encode()).hexdigest(),
        )

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:  # noqa: ARG002
        """Return the warnings it was made with."""
        return self._warnings
