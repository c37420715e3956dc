"""The append-only event logs of issues and of loops on disk (R1, R2, R10, R13)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from irontree.domain.events import IssueEvent, Record
from irontree.domain.loop import TRANSITIONS_KEPT, LoopEntity, LoopEvent
from irontree.errors import NotEligible, SequenceConflict
from irontree.files import RESTORED_SUFFIX, Disk, disk_errors, read_bytes
from irontree.ports import Clock, LoopStream, Stream
from irontree.store.codec import write_mapping
from irontree.store.documents import decode_value
from irontree.store.layout import Layout
from irontree.store.locks import exclusive
from irontree.store.streams import (
    ISSUE_FORM,
    LOOP_EVENT_BYTES,
    LOOP_FORM,
    StreamFolder,
    append_durably,
    archive_names,
    issue_stream,
    number_in,
    read_blocks,
    read_stream,
    replied_file,
    restored_files,
)

# --- The append-only event log of issues, `.mino/events/issue-{N}/` (rulings R1, R2, R10, R13)


STREAM_NAME = re.compile(r"issue-([1-9]\d*)")


class FileEventLog:
    """The port `EventLog` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, clock: Clock, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._clock = clock
        self._disk = disk or Disk()

    def streams(self) -> tuple[int, ...]:
        """Issue numbers with at least one file in their folder, ascending."""
        return tuple(sorted(number for number in stream_folders(self._layout.events) if self._files(number).names()))

    def read(self, issue_number: int) -> Stream:
        """All events of the issue; unreadable files become problems, never exceptions."""
        return issue_stream(self._files(issue_number), issue_number)

    def append(
        self, event: IssueEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[IssueEvent]:
        """Write *event* durably as `expected_sequence + 1`; raises SequenceConflict if another writer was faster."""
        with exclusive(self._layout.append_lock):
            return append_durably(
                self._disk,
                ISSUE_FORM,
                self._files(event.issue_number),
                event,
                expected_sequence=expected_sequence,
                meta=meta or {},
                moment=self._clock.now(),
            )

    def record_reply(self, issue_number: int, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once; the same again is nothing.

        Raises NotEligible if there is no such event, or it takes no reply or has another one.
        """
        files = self._files(issue_number)
        with exclusive(self._layout.append_lock):
            if (change := replied_file(files, issue_number, sequence, url)) is not None:
                name, data = change
                self._disk.write_durably(files.path / name, data)

    def read_text(self, text: str, where: str, issue_number: int) -> Stream:
        """The events of the issue in the YAML blocks of a comment."""
        return read_blocks(text, where, issue_number)

    def restore(self, issue_number: int, records: Sequence[Record[IssueEvent]]) -> None:
        """Write a whole stream, durably and visible in one rename; raises SequenceConflict if there is one by now."""
        files = self._files(issue_number)
        making = files.path.with_name(f".{files.path.name}{RESTORED_SUFFIX}")
        with exclusive(self._layout.append_lock), disk_errors(files.path):
            if files.names():
                raise SequenceConflict(f"{files.where}: has events by now", remedy="look at them first")
            shutil.rmtree(making, ignore_errors=True)
            for name, data in restored_files(records, self._clock.now()).items():
                self._disk.write_durably(making / name, data)
            self._disk.rename(making, files.path)
            self._disk.sync_folder(files.path.parent)

    def archive(self, issue_number: int, revision: str) -> Path:
        """Move stream and brief to `.mino/archive/` and return the folder they are in (ruling R7).

        The stream goes in one rename, last: until then nothing has happened. Raises NotEligible without a stream.
        """
        stream, brief = self._layout.stream(issue_number), self._layout.brief(issue_number)
        with exclusive(self._layout.append_lock), disk_errors(stream):
            if not stream.is_dir():
                raise NotEligible(f"{self._layout.shown(stream)}: there is no stream to archive")
            target = self._layout.archive / self.archive_name(issue_number, revision)
            self._disk.make_folder(target)
            if brief.exists():
                self._disk.rename(brief, target / "brief.md")
            self._disk.rename(stream, target / "events")
            self._disk.sync_folder(target)
            self._disk.sync_folder(stream.parent)
        return target

    def archive_name(self, issue_number: int, revision: str) -> str:
        """The first free name: a folder without `events` is a move that was cut short."""
        names = archive_names(issue_number, revision)
        return next(name for name in names if not (self._layout.archive / name / "events").exists())

    def archives(self, issue_number: int | None = None) -> tuple[str, ...]:
        """Names of the folders that earlier streams of that issue, or of all, were moved to, oldest first."""
        if not self._layout.archive.is_dir():
            return ()
        folders = self._layout.archive.glob(f"issue-{issue_number or '[1-9]*'}-rev-*/events")
        return tuple(path.parent.name for path in sorted(folders, key=self._ended))

    def read_archived(self, name: str) -> Stream:
        """All events of a stream that was moved away; unreadable files become problems."""
        path = self._layout.archive / name / "events"
        return issue_stream(StreamFolder(path, self._layout.shown(path)), number_in(name))

    def _ended(self, path: Path) -> tuple[str, int]:
        """When the stream that was moved there ended, by its last event: an import or a restoration has new files."""
        last = self.read_archived(path.parent.name).records[-1:]
        return str(last[0].meta.get("time", "")) if last else "", path.parent.stat().st_mtime_ns

    def _files(self, issue_number: int) -> StreamFolder:
        path = self._layout.stream(issue_number)
        return StreamFolder(path, self._layout.shown(path))


def stream_folders(events: Path) -> dict[int, str]:
    """Issue number -> path of every stream's folder, in no order; empty where there is no log yet."""
    try:
        with os.scandir(events) as entries:
            return {int(match[1]): entry.path for entry in entries if (match := STREAM_NAME.fullmatch(entry.name))}
    except FileNotFoundError:
        return {}


# --- Loops on disk, `.mino/loops/`: the event stream of each, and the entity file for people and other tools


_LOOP_NAME = re.compile(r"(\d{4}-\d{2}-\d{2}-\d{4}-[0-9a-f]{6})(\.yml)?")
_REMEDY = "`irontree checkup repair` makes it again from the events of the loop"


class FileLoopLog:
    """The port `LoopLog` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, clock: Clock, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._clock = clock
        self._disk = disk or Disk()

    def ids(self) -> tuple[str, ...]:
        """Ids of loops with events or an entity, oldest first (an id begins with its UTC time)."""
        if not self._layout.loops.is_dir():
            return ()
        names = (_LOOP_NAME.fullmatch(path.name) for path in self._layout.loops.iterdir())
        return tuple(sorted({match[1] for match in names if match}))

    def read(self, loop_id: str) -> LoopStream:
        """All events of the loop; unreadable files become problems."""
        found = read_stream(LOOP_FORM, self._files(loop_id), loop_id)
        return LoopStream(found.records, found.problems, found.highest_sequence)

    def append(
        self, event: LoopEvent, *, expected_sequence: int, meta: Mapping[str, Any] | None = None
    ) -> Record[LoopEvent]:
        """Write *event* durably; raises SequenceConflict when another writer was faster."""
        with exclusive(self._layout.append_lock):
            return append_durably(
                self._disk,
                LOOP_FORM,
                self._files(event.loop_id),
                event,
                expected_sequence=expected_sequence,
                meta=meta or {},
                moment=self._clock.now(),
            )

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        """`.mino/loops/{loop_id}.yml`; None if it is not there. Raises LogDamaged if it cannot be read."""
        path = self._layout.loop(loop_id)
        data = read_bytes(path, LOOP_EVENT_BYTES)
        if data is None:
            return None
        return decode_value(LoopEntity, data, self._layout.shown(path), limit=LOOP_EVENT_BYTES, remedy=_REMEDY)

    def write_entity(self, entity: LoopEntity) -> None:
        """Write the entity durably, with its last transitions only: they have no end, the file is written each time."""
        self._disk.write_durably(self._layout.loop(entity.loop_id), encode_entity(entity))

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
        """Read, change and write the entity durably under the append lock; KeyError if there is none."""
        with exclusive(self._layout.append_lock):
            entity = self.read_entity(loop_id)
            if entity is None:
                raise KeyError(loop_id)
            changed = change(entity)
            self.write_entity(changed)
        return changed

    def _files(self, loop_id: str) -> StreamFolder:
        path = self._layout.loop_stream(loop_id)
        return StreamFolder(path, self._layout.shown(path), LOOP_EVENT_BYTES)


def encode_entity(entity: LoopEntity) -> bytes:
    """Keys in the contract's order; `completed_at` appears with completion, as there."""
    absent = {"completed_at"} if entity.completed_at is None else set()
    mapping = entity.model_dump(mode="json", exclude=absent)
    return write_mapping(mapping | {"transitions": mapping["transitions"][-TRANSITIONS_KEPT:]}).encode()
