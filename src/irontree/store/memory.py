"""In-memory implementations of the storage ports: test doubles, held to the same contract suites."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from irontree.domain.agent_requests import AskedAgent, StandingApproval
from irontree.domain.checks import CheckReport
from irontree.domain.events import E, Record
from irontree.domain.ids import digest_of, filed_as, revision_in
from irontree.domain.loop import LoopEntity, LoopEvent
from irontree.domain.plan import Plan
from irontree.domain.timestamps import utc_text
from irontree.errors import Busy, NotEligible, SequenceConflict
from irontree.ports import Clock, EffectLedger, Holder, LeftLease, N, Projection
from irontree.store.documents import approved_at, decode_value, projection_path
from irontree.store.event_log import encode_entity
from irontree.store.layout import STATE_FOLDER, Layout
from irontree.store.streams import LOOP_EVENT_BYTES, LOOP_FORM, StreamForm, StreamLog

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The files of one stream; *files* may be filled and damaged by a test."""

    where: str
    files: dict[str, bytes] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return tuple(self.files)

    def load(self, name: str) -> bytes:
        return self.files[name]

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data


class MemoryEventLog(StreamLog[N, E]):
    """The port `EventLog` in a dictionary; `archived` holds what was moved away, by the folder's name."""

    def __init__(self, form: StreamForm[N, E], clock: Clock) -> None:
        super().__init__(form, clock)
        self._writing = threading.Lock()
        self._streams: dict[N, MemoryFiles] = {}
        self.archived: dict[str, MemoryFiles] = {}

    def files(self, name: N) -> MemoryFiles:
        """The stream's files, for a test to look at or to damage."""
        return self._streams.setdefault(name, MemoryFiles(self._form.place(name)))

    def streams(self) -> tuple[N, ...]:
        return tuple(sorted(name for name, stream in self._streams.items() if stream.files))

    def restore(self, name: N, records: Sequence[Record[E]]) -> None:
        stream = self.files(name)
        with self._writing:
            if stream.files:
                raise SequenceConflict(f"{stream.where}: has events by now")
            stream.files.update(self._restored(records))

    def archive(self, name: N, revision: str) -> Path:
        if name not in self.streams():
            raise NotEligible(f"{self._form.id(name)}: there is no stream to archive")
        free = self.archive_name(name, revision)
        self.archived[free] = self._streams.pop(name)
        return Path(".mino/archive") / free

    def archives(self, name: N | None = None) -> tuple[str, ...]:
        return tuple(archive for archive in self.archived if name in (None, self._form.archived(archive)))

    def _files(self, name: N) -> MemoryFiles:
        return self.files(name)

    def _archived_files(self, archive: str) -> MemoryFiles:
        return self.archived[archive]

    def _is_taken(self, archive: str) -> bool:
        return archive in self.archived

    def _alone(self) -> AbstractContextManager[object]:
        return self._writing


class MemoryLoopLog(MemoryEventLog[str, LoopEvent]):
    """The port `LoopLog`; `entities` are the files' bytes, for a test to damage."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(LOOP_FORM, clock)
        self.entities: dict[str, bytes] = {}

    def ids(self) -> tuple[str, ...]:
        return tuple(sorted({*self.streams(), *self.entities}))

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        data = self.entities.get(loop_id)
        return decode_value(LoopEntity, data, loop_id, limit=LOOP_EVENT_BYTES, remedy="") if data else None

    def write_entity(self, entity: LoopEntity) -> None:
        self.entities[entity.loop_id] = encode_entity(entity)

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
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
        return tuple(sorted(self._plans, key=lambda revision: (approved_at(self._plans[revision]), revision)))

    def load(self, revision: str) -> Plan | None:
        wanted = revision.lower()
        found = self._plans.get(wanted)
        if found:
            return found
        first = self._plans.get(revision_in(wanted))
        return first if first and digest_of(first) == wanted else None

    def save(self, plan: Plan) -> None:
        name = filed_as(plan, self._plans.get(plan.spec_revision))
        before = self._plans.get(name)
        if before and before != plan:
            self.replaced.append(before)
        self._plans[name] = plan


class MemoryResultStore:
    """The port `ResultStore` in a dictionary."""

    def __init__(self) -> None:
        self._reports: dict[tuple[int, str], CheckReport] = {}

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        return self._reports.get((issue_number, anchor))

    def save(self, report: CheckReport) -> None:
        self._reports[report.issue_number, report.anchor] = report

    def vouch(self) -> int:
        return len(self._reports)


class MemoryAgentRequests:
    """The port `AgentRequests` in a dictionary; `saved` is every state of every request, in the order of writing."""

    def __init__(self) -> None:
        self.saved: list[AskedAgent] = []
        self._standing: StandingApproval | None = None
        self._drafts: dict[int, str] = {}

    def keys(self) -> tuple[str, ...]:
        return tuple(sorted({request.key for request in self.saved}))

    def load(self, key: str) -> AskedAgent | None:
        return next((request for request in reversed(self.saved) if request.key == key), None)

    def save(self, request: AskedAgent) -> None:
        self.saved.append(request)

    def vouch(self) -> int:
        return len(self.keys())

    def draft(self, issue_number: int) -> str | None:
        return self._drafts.get(issue_number) or None

    def save_draft(self, issue_number: int, text: str) -> None:
        self._drafts[issue_number] = text

    def draft_path(self, issue_number: int) -> str:
        return f"{STATE_FOLDER}/drafts/issue-{issue_number}.md"

    def standing(self) -> StandingApproval | None:
        return self._standing

    def approve(self, standing: StandingApproval) -> None:
        self._standing = standing


class MemoryProjections:
    """The port `Projections`; `texts` holds what was written, by path below *root*."""

    def __init__(self, root: Path = Path()) -> None:
        self._layout = Layout(root)
        self.texts: dict[Path, str] = {}

    def write(self, what: Projection, issue_number: int, text: str) -> Path:
        path = projection_path(self._layout, what, issue_number)
        self.texts[path] = text
        return path

    def read(self, what: Projection, issue_number: int) -> str | None:
        return self.texts.get(projection_path(self._layout, what, issue_number))

    def path(self, what: Projection, issue_number: int) -> str:
        return self._layout.shown(projection_path(self._layout, what, issue_number))


class MemoryUpkeep:
    """The port `Upkeep` where nothing is ever left behind; `leftovers` is what a test says there is."""

    def __init__(self) -> None:
        self.leftovers = 0

    def remove_leftovers(self) -> int:
        found, self.leftovers = self.leftovers, 0
        return found

    def drop_caches(self) -> None:
        """There are none."""


class MemoryDeliveries:
    """The port `Deliveries` in a dictionary."""

    def __init__(self) -> None:
        self._ledgers: dict[int, EffectLedger] = {}

    def load(self, issue_number: int) -> EffectLedger:
        return self._ledgers.get(issue_number, EffectLedger())

    def save(self, issue_number: int, ledger: EffectLedger) -> None:
        self._ledgers[issue_number] = ledger


class MemoryLock:
    """The port `Lock` within one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: Holder | None = None

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
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
        return self._holder


class _OfAnotherTool(Generic[T]):
    """What another tool is said to hold, or to have left behind if it `is_old`."""

    other: T | None = None
    is_old = False

    def stale(self) -> T | None:
        return self.other if self.is_old else None

    def override(self) -> None:
        if self.is_old:
            self.other = None


class MemoryLease(_OfAnotherTool[LeftLease], MemoryLock):
    """The port `Lease` within one process; `other` is another tool's loop."""

    own: LeftLease | None = None

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        if self.other:
            raise Busy(f"another tool's loop is active: {self.other.words}")
        self.own = None
        with super().hold(what, wait_seconds=wait_seconds):
            yield

    def foreign(self) -> str | None:
        return self.other.words if self.other and not self.is_old else None

    def left(self) -> LeftLease | None:
        """What was given as `own`."""
        return self.own

    def remove_left(self) -> None:
        self.own = None


class MemoryRunLock(_OfAnotherTool[str]):
    """The port `RunLock`; `held` is what was written last."""

    held: tuple[str, int] | None = None

    def write(self, task_key: str, issue_number: int) -> None:
        self.held = (task_key, issue_number)

    def remove(self) -> None:
        self.held = None

    def foreign(self) -> str | None:
        return None if self.is_old else self.other
