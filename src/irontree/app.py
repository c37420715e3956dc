"""`App`: everything a service may use, as one frozen value. `bootstrap` builds it; tests build it from doubles."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from irontree.domain.agents import AgentSpec
from irontree.domain.permissions import PermissionRule
from irontree.domain.places import PlaceSpec, SandboxKind
from irontree.domain.plan import ExecutionPolicy, PublishPolicy
from irontree.domain.settings import Automations
from irontree.domain.timestamps import utc_text
from irontree.domain.values import COMPOSITE_THRESHOLD, CloseOnDone, ReplyMode
from irontree.ports import (
    AgentRequests,
    Blocker,
    Cancellation,
    CheckRunner,
    Children,
    Clock,
    CodingAgent,
    Deliveries,
    Forge,
    IssueLog,
    Lease,
    Lock,
    LoopLog,
    Places,
    PlanStore,
    Progress,
    Projections,
    Renderer,
    Replays,
    Repository,
    ResultStore,
    RunLock,
    Upkeep,
    WorkflowRuns,
)

if TYPE_CHECKING:
    from irontree.domain.workflow.compile import Ticked
    from irontree.domain.workflow.run import Run


@dataclass(frozen=True, slots=True)
class Preferences:
    """Settings that need no approval."""

    close_on_done: CloseOnDone | None = None
    """`None` means by type: bug -> manual, everything else -> auto (contract)."""
    type_labels: bool = False
    """Whether the repository's `type/…` labels say what type an issue is."""
    rounds: int = 3
    """After how many rounds of parts a person decides how an issue goes on."""
    composite_threshold: int = COMPOSITE_THRESHOLD
    """An issue with more open checkboxes is not adopted (R16)."""
    reply: ReplyMode = "auto"
    """Whether an issue's author gets a reply (protocol, Reply Dispatch)."""
    keeps_current: bool = True
    """Whether issues show their state in their text."""
    loop_budget: int | None = None
    """`None` means max(50, 10 * tasks) (R17)."""
    tracker: str = ""
    """The address of the repository whose issues are written; empty if issues are files."""
    api_url: str | None = None
    """The Prefect server that the configuration names."""
    automations: Automations = field(default_factory=Automations)
    approves_by_assignment: bool = False
    """Whether assigning an issue to a member of the team may approve it, once somebody approved that."""

    @property
    def has_toolchain(self) -> bool:
        """Whether a team works in the forge (`toolchain:`)."""
        return self.type_labels


class OpenPlaces:
    """The places of an App that confines nothing."""

    def best(self) -> SandboxKind:
        """This machine."""
        return "none"

    def unconfined(self) -> str:
        """It was not asked for."""
        return ""

    def blockers(self, place: PlaceSpec) -> tuple[Blocker, ...]:  # noqa: ARG002
        """There are none."""
        return ()


class NoWorkflowRuns:
    """Runs of workflow files are shown nowhere."""

    def show(self, run: Run, log: Sequence[str]) -> None:
        """Write nothing."""

    def tick(self, path: str, mark: Callable[[str], Ticked | None]) -> tuple[int, ...]:  # noqa: ARG002
        """Leave every file as it is."""
        return ()


class NoProgress:
    """Progress that is not shown anywhere."""

    def note(self, text: str) -> None:
        """Discard the note."""


class Origin(NamedTuple):
    """On whose behalf events are written; goes into their `meta:`."""

    actor: str
    channel: str = "command"
    flow_run: str | None = None
    comment: str | None = None
    """The address of the comment that requests it."""
    commented_at: str | None = None
    """When it was posted, by the forge's clock."""
    approvers: tuple[str, ...] = ()
    """Approvers and their comments (`alice https://…`), if a gate requires more than one."""

    def meta(self) -> dict[str, Any]:
        """The keys for `meta:`."""
        return {key: [*value] if isinstance(value, tuple) else value for key, value in self._asdict().items() if value}


@dataclass(frozen=True, slots=True)
class App:
    """The ports of one repository, its settings, and who is asking.

    Configured values are callables, so commands that only read the log do not pay for reading the configuration.
    """

    repository: Repository
    log: IssueLog
    replays: Replays
    loops: LoopLog
    plans: PlanStore
    results: ResultStore
    agent_requests: AgentRequests
    projections: Projections
    deliveries: Deliveries
    upkeep: Upkeep
    driver: Lock
    lease: Lease
    alive: Callable[[str], Lock]
    """The lock that a flow run holds as long as its process lives, by the run's id (R3)."""
    run_lock: RunLock
    children: Children
    forge: Callable[[], Forge]
    agent: Callable[[AgentSpec], CodingAgent]
    checks: Callable[[], CheckRunner]
    clock: Clock
    renderer: Renderer
    policy: Callable[[PublishPolicy | None], ExecutionPolicy]
    """The current configuration, for comparison with the approved one (R6); where it names no remote or target
    branch, the approved ones hold."""
    allow: Callable[[Sequence[PermissionRule]], None]
    """Adds rules to `agent.permissions` of the configuration; raises ConfigRefused, EnvironmentRefused."""
    preferences: Callable[[], Preferences]
    origin: Origin
    which: Callable[[str], str | None] = shutil.which
    """A program's place on PATH, or `None`."""
    places: Places = field(default_factory=OpenPlaces)
    workflow_runs: Callable[[], WorkflowRuns] = NoWorkflowRuns
    progress: Progress = field(default_factory=NoProgress)
    cancel: Cancellation = field(default_factory=threading.Event)

    def stamp(self) -> str:
        """Now, ISO 8601, UTC, to the second."""
        return utc_text(self.clock.now())


# --- The system's clock, as the port `Clock`


class SystemClock:
    """Reads the time of the machine."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        return datetime.now(UTC)
