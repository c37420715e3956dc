"""The shipped double of `CheckRunner`, with outcomes set by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from irontree.checks.looking import look_at
from irontree.domain.checks import CANNOT_TELL, CheckEnd, CheckResult, result_of
from irontree.domain.places import PlaceSpec
from irontree.domain.plan import Shell
from irontree.domain.workflow.step import Artifact, Browser, Command
from irontree.ports import Cancellation, Progress

Judge = Callable[[str, Path], int | None]
"""Gives the exit code of a command in a workspace; `None` means a time-out."""


class ScriptedCheckRunner:
    """Asks *judge* (command, workspace -> exit code) instead of a shell; records *commands* and *variables*.

    Each prints *output*, or the name of its check. Of a page it *shows* that; without it, nothing looks at pages.
    """

    def __init__(
        self,
        judge: Judge = lambda _command, _workspace: 0,
        *,
        warnings: tuple[str, ...] = (),
        output: str = "",
        shows: str = "",
    ) -> None:
        self._judge = judge
        self._warnings = warnings
        self._output = output
        self._shows = shows
        self.commands: list[str] = []
        self.variables: list[Mapping[str, str]] = []

    def within(self, place: PlaceSpec) -> ScriptedCheckRunner:  # noqa: ARG002 - nothing is run
        """Itself."""
        return self

    def run(
        self,
        check: Shell | Command,
        *,
        workspace: Path,
        seconds: int,  # noqa: ARG002 - a double takes no time
        variables: Mapping[str, str],
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """End at once with the exit code that the judge gives, unless asked to stop."""
        if cancel.is_set():
            return result_of(check, "cancelled", None, seconds=0, output="")
        self.commands.append(check.run)
        self.variables.append(variables)
        progress.note(f"scripted check {check.name}")
        code = self._judge(check.run, workspace)
        printed = self._output or f"{check.name}\n"
        return result_of(check, "timeout" if code is None else "exited", code, seconds=0, output=printed)

    def look_at(self, check: Artifact, *, workspace: Path) -> CheckResult:
        """Look as the real one does: that runs nothing."""
        self.commands.append(check.does)
        return look_at(check, workspace)

    def show(
        self,
        check: Browser,
        *,
        workspace: Path,  # noqa: ARG002 - nothing is run
        shot: Path,
        cancel: Cancellation,
        progress: Progress,  # noqa: ARG002
    ) -> CheckResult | None:
        """What the test has it show, with a picture of it."""
        if not self._shows:
            return None
        shot.write_bytes(self._shows.encode())
        ended: CheckEnd = "cancelled" if cancel.is_set() else "exited"
        return result_of(check, ended, CANNOT_TELL, seconds=0, output=self._shows)

    def versions(self, commands: Sequence[str], *, workspace: Path) -> Mapping[str, str]:  # noqa: ARG002
        """Invented: every tool that *commands* call is at 1.0."""
        return {"system": "memory"} | dict.fromkeys((command.split()[0] for command in commands), "1.0")

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:  # noqa: ARG002
        """Return the warnings it was made with."""
        return self._warnings
