"""The programs that do the work: coding agents and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from irontree.domain.allowance import Allowance
from irontree.domain.attempt import Claim, Ended, FailureClass, Usage

if TYPE_CHECKING:
    from irontree.domain.container import ContainerSpec
    from irontree.domain.results import CheckResult
    from irontree.ports.basics import Cancellation, Progress
    from irontree.ports.repository import Blocker


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
    allowance: Allowance = field(default_factory=Allowance)
    """What it may take; an agent that says what it takes while it works is stopped there (protocol, Budgets)."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What was observed of the program; never a verdict (docs/explanation/done.md)."""

    ended: Ended
    exit_code: int | None
    seconds: float
    output_tail: str
    claim: Claim | None = None
    """None: its program ended without a terminal record, or has none."""
    failure: FailureClass | None = None
    """Why it could not work, as its records say; None where they say nothing of the kind."""
    retry_at: datetime | None = None
    """When the service behind it may answer again (aware); set with `rate_limited` or `unreachable` at most."""
    usage: Usage = field(default_factory=Usage)
    session: str | None = None
    """Its own name for the conversation, by which a person can open it."""
    denied: tuple[str, ...] = ()
    """What it asked leave for and was denied, in words."""


class CodingAgent(Protocol):
    """A program that edits code in a workspace."""

    def no_access(self) -> str | None:
        """Why its service would turn it away, if its program says so itself, at once and without calling anybody.

        None: it has access, or that cannot be told.
        """
        ...

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run once to its end; all its processes are gone when this returns."""
        ...


class CheckRunner(Protocol):
    """Runs one check command at the commit that the workspace stands at."""

    def within(self, container: ContainerSpec | None) -> CheckRunner:
        """The same, for checks that run in such a container; None: on this machine itself."""
        ...

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


class ContainerEngine(Protocol):
    """What runs containers here."""

    def blockers(self, container: ContainerSpec) -> tuple[Blocker, ...]:
        """Why nothing can be run in it now."""
        ...
