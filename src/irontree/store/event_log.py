"""The append-only event logs on disk, and the entity files of loops beside them (R1, R2, R10, R13)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from pathlib import Path

from irontree.domain.events import E, Record
from irontree.domain.loop import TRANSITIONS_KEPT, LoopEntity, LoopEvent
from irontree.errors import NotEligible, SequenceConflict
from irontree.files import RESTORED_SUFFIX, Disk, disk_errors, read_bytes
from irontree.ports import Clock, N
from irontree.store.codec import write_mapping
from irontree.store.documents import decode_value
from irontree.store.layout import Layout
from irontree.store.locks import exclusive
from irontree.store.streams import LOOP_EVENT_BYTES, LOOP_FORM, StreamFolder, StreamForm, StreamLog, stream_folders


class FileEventLog(StreamLog[N, E]):
    """The port `EventLog` on the files of one repository; *root* is its main worktree."""

    def __init__(self, form: StreamForm[N, E], root: Path, clock: Clock, disk: Disk | None = None) -> None:
        super().__init__(form, clock)
        self._layout = Layout(root)
        self._disk = disk or Disk()

    def streams(self) -> tuple[N, ...]:
        """Names of the streams with at least one file in their folder, ascending."""
        found = stream_folders(self._form, self._layout.state)
        return tuple(sorted(name for name in found if self._files(name).names()))

    def restore(self, name: N, records: Sequence[Record[E]]) -> None:
        """Write a whole stream, durably and visible in one rename; raises SequenceConflict if there is one by now."""
        files = self._files(name)
        making = files.path.with_name(f".{files.path.name}{RESTORED_SUFFIX}")
        with self._alone(), disk_errors(files.path):
            if files.names():
                raise SequenceConflict(f"{files.where}: has events by now", remedy="look at them first")
            shutil.rmtree(making, ignore_errors=True)
            for file, data in self._restored(records).items():
                self._disk.write_durably(making / file, data)
            self._disk.rename(making, files.path)
            self._disk.sync_folder(files.path.parent)

    def archive(self, name: N, revision: str) -> Path:
        """Move the stream, and what belongs to it, to `.mino/archive/`; returns the folder they are in (R7).

        The stream goes in one rename, last: until then nothing has happened. Raises NotEligible without a stream.
        """
        stream = self._files(name).path
        with self._alone(), disk_errors(stream):
            if not stream.is_dir():
                raise NotEligible(f"{self._layout.shown(stream)}: there is no stream to archive")
            target = self._layout.archive / self.archive_name(name, revision)
            self._disk.make_folder(target)
            for its_name, place in self._form.beside.items():
                if (path := self._layout.state / place.format(name)).exists():
                    self._disk.rename(path, target / its_name)
            self._disk.rename(stream, target / "events")
            self._disk.sync_folder(target)
            self._disk.sync_folder(stream.parent)
        return target

    def archives(self, name: N | None = None) -> tuple[str, ...]:
        """Names of the folders that earlier streams of that name, or of any, were moved to, oldest first."""
        if not self._layout.archive.is_dir():
            return ()
        folders = (path.parent for path in self._layout.archive.glob(f"{self._form.kind}-*/events"))
        archived = ((path, self._form.archived(path.name)) for path in folders)
        wanted = (path for path, found in archived if found is not None and name in (None, found))
        return tuple(path.name for path in sorted(wanted, key=self._ended))

    def _ended(self, path: Path) -> tuple[str, int]:
        """When the stream that was moved there ended, by its last event: an import or a restoration has new files."""
        last = self.read_archived(path.name).records[-1:]
        return last[0].told.time if last else "", path.stat().st_mtime_ns

    def _files(self, name: N) -> StreamFolder:
        return self._folder(self._layout.root / self._form.place(name))

    def _archived_files(self, archive: str) -> StreamFolder:
        return self._folder(self._layout.archive / archive / "events")

    def _folder(self, path: Path) -> StreamFolder:
        return StreamFolder(path, self._layout.shown(path), self._form.limit, self._disk)

    def _is_taken(self, archive: str) -> bool:
        """A folder without `events` is a move that was cut short."""
        return (self._layout.archive / archive / "events").exists()

    def _alone(self) -> AbstractContextManager[None]:
        return exclusive(self._layout.append_lock)


# --- Loops: beside the events of each the entity file, for people and other tools


_LOOP_NAME = re.compile(rf"({LOOP_FORM.pattern})(\.yml)?")
_REMEDY = "`irontree checkup repair` makes it again from the events of the loop"
# A step reads the file of its loop half a dozen times.
_decode_entity = lru_cache(maxsize=1)(partial(decode_value, LoopEntity, limit=LOOP_EVENT_BYTES, remedy=_REMEDY))


class FileLoopLog(FileEventLog[str, LoopEvent]):
    """The port `LoopLog` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, clock: Clock, disk: Disk | None = None) -> None:
        super().__init__(LOOP_FORM, root, clock, disk)

    def ids(self) -> tuple[str, ...]:
        """Ids of loops with events or an entity, oldest first (an id begins with its UTC time)."""
        if not self._layout.loops.is_dir():
            return ()
        names = (_LOOP_NAME.fullmatch(path.name) for path in self._layout.loops.iterdir())
        return tuple(sorted({match[1] for match in names if match}))

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        """`.mino/loops/{loop_id}.yml`; None if it is not there. Raises LogDamaged if it cannot be read."""
        path = self._layout.loop(loop_id)
        data = read_bytes(path, LOOP_EVENT_BYTES)
        return None if data is None else _decode_entity(data, self._layout.shown(path))

    def write_entity(self, entity: LoopEntity) -> None:
        """Write the entity durably, with its last transitions only: they have no end, the file is written each time."""
        self._disk.write_durably(self._layout.loop(entity.loop_id), encode_entity(entity))

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
        """Read, change and write the entity durably under the append lock; KeyError if there is none."""
        with self._alone():
            entity = self.read_entity(loop_id)
            if entity is None:
                raise KeyError(loop_id)
            changed = change(entity)
            self.write_entity(changed)
        return changed


def encode_entity(entity: LoopEntity) -> bytes:
    """Keys in the contract's order; `completed_at` appears with completion, as there."""
    absent = {"completed_at"} if entity.completed_at is None else set()
    mapping = entity.model_dump(mode="json", exclude=absent)
    return write_mapping(mapping | {"transitions": mapping["transitions"][-TRANSITIONS_KEPT:]}).encode()
