"""What stands under `.mino/`: the log, what is derived from it, and what was delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from irontree.domain.events import IssueEvent, Record
from irontree.domain.evolve import Replay
from irontree.domain.loop import LoopEntity
from irontree.domain.loop_events import LoopEvent
from irontree.domain.plan import Plan
from irontree.domain.results import CheckReport


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
