"""The same ports without a disk: doubles for tests of services, held to the same contract suites."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from irontree.domain.checks import CheckReport
from irontree.domain.events import E, IssueEvent, Record
from irontree.domain.loop import LoopEntity, LoopEvent
from irontree.domain.plan import Plan
from irontree.domain.timestamps import utc_text
from irontree.errors import Busy, NotEligible, SequenceConflict
from irontree.ports import Clock, DeliveryCursor, Holder, LeftLease, LoopStream, Stream
from irontree.store.documents import approved_at, decode_value
from irontree.store.event_log import encode_entity
from irontree.store.streams import (
    ISSUE_FORM,
    LOOP_EVENT_BYTES,
    LOOP_FORM,
    StreamForm,
    archive_names,
    issue_stream,
    next_file,
    number_in,
    read_blocks,
    read_stream,
    replied_file,
    restored_files,
)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The files of one stream; *files* may be filled and damaged by a test."""

    where: str
    files: dict[str, bytes] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """All file names."""
        return tuple(self.files)

    def load(self, name: str) -> bytes:
        """The content of one of them."""
        return self.files[name]


def _append(
    form: StreamForm[E],
    stream: MemoryFiles,
    event: E,
    expected_sequence: int,
    meta: Mapping[str, Any] | None,
    clock: Clock,
) -> Record[E]:
    name, data, record = next_file(
        form, stream, event, expected_sequence=expected_sequence, meta=meta or {}, moment=clock.now()
    )
    stream.files[name] = data
    return record


class MemoryEventLog:
    """The port `EventLog` in a dictionary; `archived` holds what was moved away, by the folder's name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._writing = threading.Lock()
        self._streams: dict[int, MemoryFiles] = {}
        self.archived: dict[str, MemoryFiles] = {}

    def files(self, issue_number: int) -> MemoryFiles:
        """The stream's files, for a test to look at or to damage."""
        return self._streams.setdefault(issue_number, MemoryFiles(f".mino/events/issue-{issue_number}"))

    def streams(self) -> tuple[int, ...]:
        """Issue numbers that have a stream, ascending."""
        return tuple(sorted(number for number, stream in self._streams.items() if stream.files))

    def read(self, issue_number: int) -> Stream:
        """All events of the issue; unreadable files become problems."""
        return issue_stream(self.files(issue_number), issue_number)

    def append(
        self, event: IssueEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[IssueEvent]:
        """Store *event*; raises SequenceConflict if the stream does not end at *expected_sequence*."""
        with self._writing:
            stream = self.files(event.issue_number)
            return _append(ISSUE_FORM, stream, event, expected_sequence, meta, self._clock)

    def record_reply(self, issue_number: int, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once."""
        stream = self.files(issue_number)
        if (change := replied_file(stream, issue_number, sequence, url)) is not None:
            name, data = change
            stream.files[name] = data

    def read_text(self, text: str, where: str, issue_number: int) -> Stream:
        """The events of the issue in the YAML blocks of a comment."""
        return read_blocks(text, where, issue_number)

    def restore(self, issue_number: int, records: Sequence[Record[IssueEvent]]) -> None:
        """Store a whole stream; raises SequenceConflict if there is one by now."""
        with self._writing:
            stream = self.files(issue_number)
            if stream.files:
                raise SequenceConflict(f"{stream.where}: has events by now")
            stream.files.update(restored_files(records, self._clock.now()))

    def archive(self, issue_number: int, revision: str) -> Path:
        """Move the stream to `archived`; raises NotEligible without one."""
        if issue_number not in self.streams():
            raise NotEligible(f"issue-{issue_number}: there is no stream to archive")
        free = self.archive_name(issue_number, revision)
        self.archived[free] = self._streams.pop(issue_number)
        return Path(".mino/archive") / free

    def archive_name(self, issue_number: int, revision: str) -> str:
        """The first that is no key of `archived`."""
        return next(name for name in archive_names(issue_number, revision) if name not in self.archived)

    def archives(self, issue_number: int | None = None) -> tuple[str, ...]:
        """Keys of `archived` that earlier streams of that issue, or of all, are under, oldest first."""
        return tuple(name for name in self.archived if issue_number in (None, number_in(name)))

    def read_archived(self, name: str) -> Stream:
        """All events of a stream that was moved away."""
        return issue_stream(self.archived[name], number_in(name))


class MemoryLoopLog:
    """The port `LoopLog` in two dictionaries; `entities` are the files' bytes, for a test to damage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._writing = threading.Lock()
        self._streams: dict[str, MemoryFiles] = {}
        self.entities: dict[str, bytes] = {}

    def files(self, loop_id: str) -> MemoryFiles:
        """The stream's files, for a test to look at or to damage."""
        return self._streams.setdefault(loop_id, MemoryFiles(f".mino/loops/{loop_id}/events"))

    def ids(self) -> tuple[str, ...]:
        """Ids of loops with events or an entity, oldest first."""
        return tuple(sorted({loop_id for loop_id, stream in self._streams.items() if stream.files} | {*self.entities}))

    def read(self, loop_id: str) -> LoopStream:
        """All events of the loop; unreadable files become problems."""
        found = read_stream(LOOP_FORM, self.files(loop_id), loop_id)
        return LoopStream(found.records, found.problems, found.highest_sequence)

    def append(
        self, event: LoopEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[LoopEvent]:
        """Store *event*; raises SequenceConflict if the stream does not end at *expected_sequence*."""
        with self._writing:
            return _append(LOOP_FORM, self.files(event.loop_id), event, expected_sequence, meta, self._clock)

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        """The entity; None if there is none."""
        data = self.entities.get(loop_id)
        return decode_value(LoopEntity, data, loop_id, limit=LOOP_EVENT_BYTES, remedy="") if data else None

    def write_entity(self, entity: LoopEntity) -> None:
        """Store the entity, with its last transitions only."""
        self.entities[entity.loop_id] = encode_entity(entity)

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
        """Read, change and store the entity; KeyError if there is none."""
        with self._writing:
            entity = self.read_entity(loop_id)
            if entity is None:
                raise KeyError(loop_id)
            changed = change(entity)
            self.write_entity(changed)
        return changed


class MemoryPlanStore:
    """The port `PlanStore` in a dictionary; `replaced` holds earlier plans of a revision, oldest first."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self.replaced: list[Plan] = []

    def revisions(self) -> tuple[str, ...]:
        """Spec revisions with a plan in force, oldest approval first."""
        return tuple(sorted(self._plans, key=lambda revision: (approved_at(self._plans[revision]), revision)))

    def load(self, revision: str) -> Plan | None:
        """The plan in force for that revision, in any case; None if there is none."""
        return self._plans.get(revision.lower())

    def save(self, plan: Plan) -> None:
        """Store the plan; other content under its revision goes to `replaced`."""
        before = self._plans.get(plan.spec_revision)
        if before and before != plan:
            self.replaced.append(before)
        self._plans[plan.spec_revision] = plan


class MemoryResultStore:
    """The port `ResultStore` in a dictionary."""

    def __init__(self) -> None:
        self._reports: dict[tuple[int, str], CheckReport] = {}

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        """The stored results at that commit; None if there are none."""
        return self._reports.get((issue_number, anchor))

    def save(self, report: CheckReport) -> None:
        """Store the results, in place of earlier ones at that commit."""
        self._reports[report.issue_number, report.anchor] = report


class MemoryProjections:
    """The port `Projections`; `texts` holds what was written, by path below *root*."""

    def __init__(self, root: Path = Path()) -> None:
        self._root = root
        self.texts: dict[Path, str] = {}

    def write_brief(self, issue_number: int, text: str) -> Path:
        """Keep a brief."""
        return self._kept(self._root / f".mino/briefs/issue-{issue_number}.md", text)

    def read_brief(self, issue_number: int) -> str | None:
        """The brief as it is; None without one."""
        return self.texts.get(self._root / f".mino/briefs/issue-{issue_number}.md")

    def write_report(self, issue_number: int, text: str) -> Path:
        """Keep a report."""
        return self._kept(self._root / self.report_path(issue_number), text)

    def read_report(self, issue_number: int) -> str | None:
        """The report as it is; None without one."""
        return self.texts.get(self._root / self.report_path(issue_number))

    def report_path(self, issue_number: int) -> str:
        """Where that is, as `.mino/…`."""
        return f".mino/reports/issue-{issue_number}/report.md"

    def _kept(self, path: Path, text: str) -> Path:
        self.texts[path] = text
        return path


class MemoryUpkeep:
    """The port `Upkeep` where nothing is ever left behind; `leftovers` is what a test says there is."""

    def __init__(self) -> None:
        self.leftovers = 0

    def remove_leftovers(self) -> int:
        """How many there were."""
        found, self.leftovers = self.leftovers, 0
        return found

    def drop_caches(self) -> None:
        """There are none."""


class MemoryDeliveries:
    """The port `Deliveries` in a dictionary."""

    def __init__(self) -> None:
        self._cursors: dict[int, DeliveryCursor] = {}

    def load(self, issue_number: int) -> DeliveryCursor:
        """The cursor; at 0 for an issue never delivered."""
        return self._cursors.get(issue_number, DeliveryCursor())

    def save(self, issue_number: int, cursor: DeliveryCursor) -> None:
        """Store the cursor."""
        self._cursors[issue_number] = cursor


class MemoryLock:
    """The port `Lock` within one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Holder | None = None

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        """Hold the lock for the block; raises Busy, naming the holder."""
        if not self._lock.acquire(timeout=wait_seconds):
            holder = self._holder
            raise Busy(f"busy: {holder.what} ({holder.about})" if holder else "busy")
        self._holder = Holder(what, utc_text(self._clock.now()), os.getpid(), "memory")
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""
        return self._holder


class MemoryLease(MemoryLock):
    """The port `Lease` within one process; `other` is another tool's loop, which is stale if `is_old`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.other: LeftLease | None = None
        self.is_old = False
        self.own: LeftLease | None = None

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        """Hold the lease for the block; raises Busy beside another tool's loop."""
        if self.other:
            raise Busy(f"another tool's loop is active: {self.other.words}")
        self.own = None
        with super().hold(what, wait_seconds=wait_seconds):
            yield

    def foreign(self) -> str | None:
        """The words of `other`, unless it is old."""
        return self.other.words if self.other and not self.is_old else None

    def stale(self) -> LeftLease | None:
        """The `other`, if it is old."""
        return self.other if self.is_old else None

    def left(self) -> LeftLease | None:
        """What was given as `own`."""
        return self.own

    def override(self) -> None:
        """Forget an old `other`."""
        if self.is_old:
            self.other = None


class MemoryRunLock:
    """The port `RunLock`; `held` is what was written last, `other` what another tool is said to hold, or held."""

    def __init__(self) -> None:
        self.held: tuple[str, int] | None = None
        self.other: str | None = None
        self.is_old = False

    def write(self, task_key: str, issue_number: int) -> None:
        """Note who works."""
        self.held = (task_key, issue_number)

    def remove(self) -> None:
        """Note that nobody does."""
        self.held = None

    def foreign(self) -> str | None:
        """The words given as `other`, unless it is old."""
        return None if self.is_old else self.other

    def stale(self) -> str | None:
        """The words given as `other`, if it is old."""
        return self.other if self.is_old else None

    def override(self) -> None:
        """Forget an old `other`."""
        if self.is_old:
            self.other = None
