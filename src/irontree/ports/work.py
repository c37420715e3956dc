"""The programs that do the work: coding agents and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from irontree.domain.results import CheckResult
from irontree.ports.basics import Cancellation, Progress


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One attempt, as the agent gets it."""

    issue_number: int
    task_key: str
    attempt: int
    prompt: str
    workspace: Path
    transcript: Path
    """A folder of this attempt alone (keyed by the sequence of run_started)."""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What was observed of the program; never a verdict (product claim 1)."""

    ended: Literal["exited", "timeout", "stalled", "cancelled", "not_started"]
    exit_code: int | None
    seconds: float
    output_tail: str
    summary: str | None = None
    """The agent's own last words, if it has a way to say them; a claim, not a fact."""
    usage: Mapping[str, float] = field(default_factory=dict)


class CodingAgent(Protocol):
    """A program that edits code in a workspace."""

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run once to its end; all its processes are gone when this returns."""
        ...


class CheckRunner(Protocol):
    """Runs one check command at the commit that the workspace stands at."""

    def run(
        self,
        name: str,
        command: str,
        *,
        workspace: Path,
        seconds: int,
        variables: Mapping[str, str],
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """Run to its end or limit; all its processes are gone when this returns."""
        ...

    def versions(self, commands: Sequence[str], *, workspace: Path) -> Mapping[str, str]:
        """Versions by name: the system, and those well-known tools of *commands*, or behind them, that say one."""
        ...

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:
        """Signs that the checks would test the user's checkout instead of *workspace*, in words (ruling R4)."""
        ...
