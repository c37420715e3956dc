"""What stands under `.mino/`: the log, what is derived from it, and what was delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from irontree.domain.evolve import Replay, replay

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent, Record
    from irontree.domain.loop import LoopEntity
    from irontree.domain.loop_events import LoopEvent
    from irontree.domain.plan import Plan
    from irontree.domain.results import CheckReport
    from irontree.domain.spending import Spending


@dataclass(frozen=True, slots=True)
class Problem:
    """A file of the log that cannot be used, said to the person who must repair it."""

    path: str
    what: str
    newer: bool = False
    """A newer version wrote it: nothing is wrong with the file, and nothing is missing (S3)."""


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

    def replayed(self) -> Replay:
        """What it amounts to. What a newer version wrote is no gap: until this one is upgraded, nothing may follow."""
        found = replay(self.records, highest_sequence=self.highest_sequence)
        newer = next((problem for problem in self.problems if problem.newer), None)
        if newer is None:
            return found
        state = replace(found.state, problem=newer.what, newer=True) if found.state else None
        return Replay(state, problem=newer.what)


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

    def read_text(self, text: str, where: str, issue_number: int) -> Stream:
        """The events of the issue in the YAML blocks of *text*, a comment at *where*, in any order (older tools)."""
        ...

    def restore(self, issue_number: int, records: Sequence[Record[IssueEvent]]) -> None:
        """Write the events of an issue that has none here, each under its own sequence: all of them or none.

        Raises SequenceConflict if it has any by now.
        """
        ...

    def archive(self, issue_number: int, revision: str) -> Path:
        """Move the stream away by one atomic rename and say where to; its issue can then begin again (ruling R7)."""
        ...

    def archive_name(self, issue_number: int, revision: str) -> str:
        """The name of the folder that `archive` would move the stream to: the first that is free."""
        ...

    def archives(self, issue_number: int | None = None) -> tuple[str, ...]:
        """Names of the folders that earlier streams of that issue, or of all, were moved to, oldest first."""
        ...

    def read_archived(self, name: str) -> Stream:
        """All events of a stream that was moved away, by the name that `archives` gives."""
        ...

    def record_reply(self, issue_number: int, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once (ruling R10)."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What one stream amounts to, what it cost, and the files that could not be read."""

    replay: Replay
    problems: tuple[Problem, ...] = ()
    spendings: tuple[Spending, ...] = ()
    """What the agents took that worked on it, by the events that can be read."""


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

    def read_brief(self, issue_number: int) -> str | None:
        """The brief as it is, to tell what was made anew; None without one."""
        ...

    def write_report(self, issue_number: int, text: str) -> Path:
        """Write `.mino/reports/issue-{N}/report.md`."""
        ...

    def read_report(self, issue_number: int) -> str | None:
        """The report as it is, for a person; None without one."""
        ...

    def report_path(self, issue_number: int) -> str:
        """Where that is, or will be, from the repository's root; POSIX."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryCursor:
    """How far the effects of an issue's events were delivered, and what failed (ruling R9)."""

    sequence: int = 0
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What failed once and is not tried again: a reply (protocol, Reply Dispatch)."""
    replied: int = 0
    """The newest event for which a reply was decided; never asked again."""
    closed: bool = False
    """Whether the issue was seen closed after it was done: if it is open then, a person opened it again."""
    text: str = ""
    """Digest of title and body as they were when they were ours to the letter; empty: not looked at yet."""
    noticed: tuple[str, ...] = ()
    """What was changed outside and is not put right yet, in words."""
    halt_told: str = ""
    """The marker of the newest halt of a loop here that was told; empty: none was."""
    ready: str = ""
    """The request, and the attempt (`2 3`), that was made ready to merge; empty: none was."""
    withdrawn: str = ""
    """The work that was given up and whose requests are closed (`rev-1234abcd 12`); empty: none was."""
    settled: tuple[str, ...] = ()
    """Ids of the newest comments with commands that were taken, refused, or are nobody's: not looked at again."""
    voted_on: str = ""
    """The key of the question that a gate holds open; empty: none."""
    voters: tuple[str, ...] = ()
    """Who has said that it goes on, as last counted on the forge."""


class Upkeep(Protocol):
    """What crashes may leave under `.mino/`, and what can be made again at any time."""

    def remove_leftovers(self) -> int:
        """Remove half-written files that no writer is at; how many there were."""
        ...

    def drop_caches(self) -> None:
        """Forget everything that was derived from the log and only saves time."""
        ...


class Deliveries(Protocol):
    """`.mino/deliveries/issue-{N}`."""

    def load(self, issue_number: int) -> DeliveryCursor:
        """The cursor; at 0 for an issue never delivered."""
        ...

    def save(self, issue_number: int, cursor: DeliveryCursor) -> None:
        """Store the cursor."""
        ...
