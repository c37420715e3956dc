"""Streams as folders of files: reading them, and the durable append (ruling R2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irontree.errors import LogDamaged
from irontree.store.codec import EVENT_BYTES
from irontree.store.files import Disk, disk_errors, is_leftover, read_bytes
from irontree.store.streams import Form, next_file

if TYPE_CHECKING:
    from irontree.domain.events import E, Record


@dataclass(frozen=True, slots=True)
class StreamFolder:
    """The files of one stream; *where* is the folder as people read it."""

    path: Path
    where: str
    limit: int = EVENT_BYTES

    def names(self) -> list[str]:
        """All file names but hidden ones; none if the folder does not exist."""
        with disk_errors(self.path):
            try:
                found = os.listdir(self.path)  # noqa: PTH208  (names are all we need)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [name for name in found if not name.startswith(".")]

    def load(self, name: str) -> bytes:
        """The content of one file; raises LogDamaged if it has gone."""
        data = read_bytes(self.path / name, self.limit)
        if data is None:
            raise LogDamaged(f"{self.where}/{name}: the file is gone")
        return data


def append_durably(
    disk: Disk,
    form: Form[E],
    files: StreamFolder,
    event: E,
    *,
    expected_sequence: int,
    meta: Mapping[str, Any],
    moment: datetime,
) -> Record[E]:
    """Append to the folder; the caller holds the append lock. Removes what killed writers left."""
    remove_leftovers(files.path)
    name, data, record = next_file(form, files, event, expected_sequence=expected_sequence, meta=meta, moment=moment)
    disk.write_durably(files.path / name, data)
    return record


def remove_leftovers(folder: Path) -> None:
    """Remove dot-temporaries: under the append lock nobody is writing one."""
    with disk_errors(folder):
        for path in folder.glob(".*"):
            if is_leftover(path.name):
                path.unlink(missing_ok=True)
