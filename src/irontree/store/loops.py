"""Loops on disk, `.mino/loops/`: the event stream of each, and the entity file for people and other tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irontree.domain.loop import TRANSITIONS_KEPT, LoopEntity
from irontree.ports import Clock, LoopStream
from irontree.store.codec import write_mapping
from irontree.store.documents import decode_value
from irontree.store.files import Disk, read_bytes
from irontree.store.folders import StreamFolder, append_durably
from irontree.store.layout import Layout
from irontree.store.locks import exclusive
from irontree.store.streams import LOOP_EVENT_BYTES, LOOP_FORM, read_stream

if TYPE_CHECKING:
    from irontree.domain.events import Record
    from irontree.domain.loop_events import LoopEvent

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
