"""What the services need from the world: small Protocols, and the values that cross them.

Adapters implement these; `bootstrap` wires them; every port has a contract suite in tests/contract that
all its adapters pass. Foreign exceptions are mapped to `irontree.errors` inside the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from irontree.domain.events import IssueEvent, Record
from irontree.domain.evolve import Replay
from irontree.domain.loop import LoopEntity
from irontree.domain.loop_events import LoopEvent
from irontree.domain.plan import Plan, PublishPolicy, WorkspacePolicy
from irontree.domain.results import CheckReport, CheckResult


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """The present moment, timezone-aware, UTC."""
        ...


class Cancellation(Protocol):
    """Asked-to-stop flag; `threading.Event` is one."""

    def is_set(self) -> bool:
        """True once a stop was asked for."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep at most *timeout* seconds; True at once when a stop is asked for."""
        ...


class Progress(Protocol):
    """Where a step says what it is doing; a terminal, a Prefect log, or nothing."""

    def note(self, text: str) -> None:
        """One line for a person who watches."""
        ...


# --- .mino/ -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """A file of the log that cannot be used, said to the person who must repair it."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of one issue in sequence order, and what could not be read."""

    records: tuple[Record[IssueEvent], ...] = ()
    problems: tuple[Problem, ...] = ()
    highest_sequence: int = 0
    """The highest sequence among the stream's file names, readable or not: what `append` expects."""

    @property
    def last_sequence(self) -> int:
        """The highest sequence with a readable event; 0 for an empty stream."""
        return self.records[-1].event.sequence if self.records else 0


@dataclass(frozen=True, slots=True)
class LoopStream:
    """The events of one loop in sequence order, and what could not be read."""

    records: tuple[Record[LoopEvent], ...] = ()
    problems: tuple[Problem, ...] = ()
    highest_sequence: int = 0
    """The highest sequence among the loop's file names, readable or not: what `append` expects."""


class EventLog(Protocol):
    """The append-only log, a stream per issue (rulings R1, R2, R13)."""

    def streams(self) -> tuple[int, ...]:
        """Issue numbers that have a stream, ascending."""
        ...

    def read(self, issue_number: int) -> Stream:
        """All events of the issue; unreadable files become problems, never exceptions."""
        ...

    def append(
        self, event: IssueEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[IssueEvent]:
        """Write *event* durably as `expected_sequence + 1`.

        `expected_sequence` is the highest sequence among the stream's file names, readable or not (0: none);
        `event.sequence` must be one more. Adds `meta.time` and `meta.previous` (digest chain, R10).
        Raises SequenceConflict when another writer was faster.
        """
        ...

    def archive(self, issue_number: int, revision: str) -> Path:
        """Move the stream away by one atomic rename and say where to; its issue can then begin again (ruling R7)."""
        ...

    def archives(self, issue_number: int) -> tuple[str, ...]:
        """Names of the folders that its earlier streams were moved to, oldest first."""
        ...

    def read_archived(self, name: str) -> Stream:
        """All events of a stream that was moved away, by the name that `archives` gives."""
        ...

    def record_reply(self, issue_number: int, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once (ruling R10)."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What one stream amounts to, and the files that could not be read."""

    replay: Replay
    problems: tuple[Problem, ...] = ()


class Replays(Protocol):
    """The replayed state of every stream."""

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number, as the log is now."""
        ...


class LoopLog(Protocol):
    """Loop events and the entity file derived from them (`.mino/loops/`)."""

    def ids(self) -> tuple[str, ...]:
        """Loop ids, oldest first."""
        ...

    def read(self, loop_id: str) -> LoopStream:
        """All events of the loop."""
        ...

    def append(
        self, event: LoopEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[LoopEvent]:
        """Write *event* durably; raises SequenceConflict when another writer was faster."""
        ...

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        """`.mino/loops/{loop_id}.yml`; None if it is not there. Events win over it (ruling R17)."""
        ...

    def write_entity(self, entity: LoopEntity) -> None:
        """Write the entity durably (`budget_used` must survive the next action's crash, R12)."""
        ...

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
        """Read, change and write the entity durably under the append lock; KeyError if there is none."""
        ...


class PlanStore(Protocol):
    """`.mino/plans/{revision}.yml` (ruling R6)."""

    def revisions(self) -> tuple[str, ...]:
        """Spec revisions with a plan in force, oldest approval first."""
        ...

    def load(self, revision: str) -> Plan | None:
        """The plan in force for that revision (8 hex, any case); None if there is none."""
        ...

    def save(self, plan: Plan) -> None:
        """Write the plan durably. One of the same revision with other content is kept as `{revision}.{n}.yml`."""
        ...


class ResultStore(Protocol):
    """`.mino/reports/issue-{N}/{anchor}.yml`: check results, durable before publication."""

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        """The stored results at that commit; None if there are none."""
        ...

    def save(self, report: CheckReport) -> None:
        """Write the results durably."""
        ...


class Projections(Protocol):
    """Text rendered from log and plan; never read back as truth, not fsynced."""

    def write_brief(self, issue_number: int, text: str) -> Path:
        """Write `.mino/briefs/issue-{N}.md`."""
        ...

    def write_report(self, issue_number: int, text: str) -> Path:
        """Write `.mino/reports/issue-{N}/report.md`."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryCursor:
    """How far the effects of an issue's events were delivered, and what failed (ruling R9)."""

    sequence: int = 0
    failures: tuple[str, ...] = ()


class Deliveries(Protocol):
    """`.mino/deliveries/issue-{N}`."""

    def load(self, issue_number: int) -> DeliveryCursor:
        """The cursor; at 0 for an issue never delivered."""
        ...

    def save(self, issue_number: int, cursor: DeliveryCursor) -> None:
        """Store the cursor."""
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: shown to people, never used to decide liveness (ruling R3)."""

    what: str
    """For example `issue-12, run` or a loop id."""
    since: str
    pid: int
    host: str


class Lock(Protocol):
    """A kernel-held exclusive lock: the driver lock of a repository, or a loop's lease."""

    def hold(self, what: str, *, wait_seconds: float = 0) -> AbstractContextManager[None]:
        """Hold the lock for the block; raises Busy (naming the holder) if it is not free within *wait_seconds*."""
        ...

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""
        ...


class RunLock(Protocol):
    """The contract's `.mino/run.lock`: information for people and other tools; liveness is the driver lock's (R3)."""

    def write(self, task_key: str, issue_number: int) -> None:
        """Say that this issue is being worked on."""
        ...

    def remove(self) -> None:
        """Say that nothing is, if we said so; no error if nothing was said, or if another tool says it."""
        ...

    def foreign(self) -> str | None:
        """Who holds it, in words, if another tool or host wrote it less than the stale threshold ago."""
        ...


@dataclass(frozen=True, slots=True)
class Child:
    """A program that we started, as recorded. Equal *boot* and *started* mean that *pid* is still the same one."""

    pid: int
    pgid: int
    started: str
    boot: str
    mark: str
    command: str
    owner: int = 0
    """The process that started it, of which *owner_started* tells whether it is still the same one."""
    owner_started: str = ""


class Children(Protocol):
    """The processes that an earlier driver of this repository left behind (ruling R3)."""

    def kill_leftovers(self) -> int:
        """Kill those that are recorded and still the same process; how many there were."""
        ...


# --- git ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason why no work can start; `check` is the short kebab id of `blocking_check`."""

    check: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Our commit in a workspace."""

    sha: str
    files: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """Paths that hooks or the agent left and that are not in the commit."""


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """git or a hook refused; `output` is what it said."""

    output: str


@dataclass(frozen=True, slots=True)
class Published:
    """`sha` is reachable from the target branch; `warning` if the user's checkout could not follow."""

    sha: str
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The target is not an ancestor of what was to be published; `tip` must be merged first."""

    tip: str


class Workspace(Protocol):
    """One of the two private workspaces, `run` or `verify` (ruling R4)."""

    @property
    def path(self) -> Path:
        """Its folder; never inside the user's repository."""
        ...

    def prepare(self, base: str, *, tree_of: str | None = None, cancel: Cancellation | None = None) -> None:
        """HEAD detached at *base*, clean but for ignored caches; with *tree_of*, files as in that commit; set up."""
        ...

    def commit(self, message: str, *, base: str, replaces: str | None = None) -> Committed | CommitRefused | None:
        """One commit on *base* of everything that differs from it (agent's own commits folded in); None: no change."""
        ...

    def salvage(self, base: str, ref: str) -> str | None:
        """Keep all that differs from *base* (commits, edits, untracked) under *ref* in the user's repository."""
        ...

    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge commit of the two, or None on conflict (workspace is left clean)."""
        ...


class Repository(Protocol):
    """The user's repository: questions, and the few effects we have on it (rulings R4, R5)."""

    @property
    def root(self) -> Path:
        """The main worktree; `.mino/` is in it."""
        ...

    @property
    def id(self) -> str:
        """`irontree.id` of this clone, made by `init` (ruling R21)."""
        ...

    def user_name(self) -> str | None:
        """Who commits here, as git knows them; None if it does not."""
        ...

    def preflight(
        self, policy: PublishPolicy, workspace: WorkspacePolicy, *, exempt: Sequence[str] = ()
    ) -> tuple[Blocker, ...]:
        """What would stop a run now; empty: the runway is clear. *exempt* are paths whose changes do not count."""
        ...

    def base(self, policy: PublishPolicy) -> str:
        """The commit new work starts from: the remote target's tip (fetched), or the local branch without a remote."""
        ...

    def workspace(self, name: Literal["run", "verify"], policy: WorkspacePolicy) -> Workspace:
        """The private workspace of that name, created on first use."""
        ...

    def keep(self, sha: str, ref: str, *, source: Workspace | None = None) -> None:
        """Point `refs/irontree/...` *ref* at *sha*, bringing it over from *source*; the same again is nothing."""
        ...

    def read_ref(self, ref: str) -> str | None:
        """The commit *ref* points at; None if there is no such ref."""
        ...

    def find_token(self, token: str, *, base: str, source: Workspace) -> str | None:
        """The commit in `base..HEAD` of *source* whose trailer carries *token*."""
        ...

    def publish(self, sha: str, policy: PublishPolicy) -> Published | Moved:
        """Push *sha* to the target (never forced). Raises RemoteUnavailable or PublicationRefused."""
        ...

    def diff(self, base: str, sha: str) -> str:
        """The unified diff between two commits."""
        ...

    def changed_files(self, base: str, sha: str) -> tuple[str, ...]:
        """Paths that differ between two commits."""
        ...

    def lacking(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas* that are no commits here."""
        ...

    def unreferenced(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas*, all of them here, that no ref reaches: git may throw them away."""
        ...

    def mark_history(self) -> None:
        """Remember that there are events, so that a deleted log is not taken for a first run (ruling R13)."""
        ...

    def back_up(self) -> None:
        """Commit `.mino/{plans,events,archive,loops}` to `refs/irontree/log` by plumbing (ruling R13)."""
        ...


# --- agents and checks --------------------------------------------------------------------------------------


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

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:
        """Signs that the checks would test the user's checkout instead of *workspace*, in words (ruling R4)."""
        ...


# --- forge --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Label:
    """A label of the forge; `color` is 6 hex digits."""

    name: str
    color: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `ours` is True if our own account wrote it."""

    id: str
    body: str
    author: str
    ours: bool
    created_at: str
    url: str


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue as the forge shows it; `trusted` if its author is us or has write access (ruling R8)."""

    number: int
    title: str
    body: str
    state: Literal["open", "closed"]
    labels: tuple[str, ...]
    author: str
    trusted: bool
    url: str


class IssueTracker(Protocol):
    """Issues of one repository."""

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue."""
        ...

    def read_issue(self, number: int) -> Issue | None:
        """The issue; None if there is none."""
        ...

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, by listing (search lags), lowest number first."""
        ...

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest."""
        ...


class Comments(Protocol):
    """Comments of an issue."""

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        ...

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        ...


class Labels(Protocol):
    """Labels of a repository and of its issues."""

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Create those that are missing; leave existing ones as they are."""
        ...

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove; what is there already, or not there, is no error."""
        ...


class Forge(IssueTracker, Comments, Labels, Protocol):
    """GitHub, Gitea/Forgejo, or plain files."""

    @property
    def name(self) -> str:
        """The adapter's name, as in the configuration."""
        ...


class Renderer(Protocol):
    """Turns a template and typed values into text."""

    def render(self, template: str, **values: object) -> str:
        """Render `templates/{template}.j2`; an undefined name is an error."""
        ...
