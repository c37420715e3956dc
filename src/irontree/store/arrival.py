"""Taking the files of an archive into a repository's state folder: only where nothing here is lost by it (R21)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.errors import Refused
from irontree.store.files import Disk
from irontree.store.locks import exclusive
from irontree.store.parcel import Entry, Parcel, entry_of, files_to_pack
from irontree.store.parcel_names import CONFIG
from irontree.store.restoring import is_event, place_of, substance

if TYPE_CHECKING:
    from irontree.store.layout import Layout

_STREAM = re.compile(r"\.mino/events/(issue-\d+)/([^/]+)")
_ARCHIVED = re.compile(r"\.mino/archive/(issue-\d+)-rev-[^/]+/events/([^/]+)")
_PLAN = re.compile(r"\.mino/plans/[^/]+\.yml")
_FORGE = re.compile(r"\.mino/forge/issues/[^.].*")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Arrival:
    """What the archive would change: files to write, files of streams that were archived since, and what stays."""

    parcel: Parcel
    layout: Layout
    writes: tuple[Entry, ...]
    superseded: tuple[Path, ...]
    keeps_config: bool
    """The configuration here is another one, and stays."""

    def carry_out(self, disk: Disk | None = None) -> None:
        """Write everything durably; the same again, after a kill too, ends in the same files."""
        writer = disk or Disk()
        with exclusive(self.layout.append_lock):
            for path in self.superseded:
                path.unlink(missing_ok=True)
            for entry in self.writes:
                writer.write_durably(place_of(self.layout.root, entry.path), self.parcel.read(entry))


def plan_arrival(parcel: Parcel, layout: Layout) -> Arrival:
    """Compare the archive with what is here; writes nothing.

    Raises Refused if anything of the log here is not in the archive: its log must be the same one, gone on.
    """
    known = {entry.path: entry for entry in parcel.entries()}
    for path in known:
        place_of(layout.root, path)  # a link may lead elsewhere
    here = {path: entry_of(path, place) for path, place in files_to_pack(layout)}
    both = _Both(parcel, layout, known, here)
    if strangers := tuple(both.strangers()):
        raise _another_log(parcel, layout, strangers)
    changed = {path for path, entry in known.items() if here.get(path) != entry}
    keeps_config = CONFIG in changed & here.keys()
    writes = tuple(known[path] for path in known if path in changed and not (keeps_config and path == CONFIG))
    superseded = tuple(place_of(layout.root, path) for path in here if is_event(path) and path not in known)
    return Arrival(parcel, layout, writes, superseded, keeps_config)


@dataclass(frozen=True, slots=True)
class _Both:
    """The files of the archive (*known*) beside those that are here."""

    parcel: Parcel
    layout: Layout
    known: Mapping[str, Entry]
    here: Mapping[str, Entry]

    def strangers(self) -> Iterator[str]:
        """Paths here whose content would be lost."""
        has_log = any(map(is_event, self.here))
        plans = {entry.sha256 for path, entry in self.known.items() if _PLAN.fullmatch(path)}
        for path, entry in self.here.items():
            if self.known.get(path) == entry:
                continue
            if is_event(path):
                is_stranger = not (self._goes_on(path, path) or self._was_archived(path))
            elif _PLAN.fullmatch(path):
                is_stranger = entry.sha256 not in plans
            else:  # with a log, these are its earlier projections; without one, issues that a person made
                is_stranger = not has_log and bool(_FORGE.fullmatch(path))
            if is_stranger:
                yield path

    def _was_archived(self, path: str) -> bool:
        """Whether the event is by now in an archived stream of its issue (ruling R7)."""
        stream = _STREAM.fullmatch(path)
        moved = (known for known in self.known if stream and _is_archived(known, stream))
        return any(self._goes_on(path, known) for known in moved)

    def _goes_on(self, path: str, known: str) -> bool:
        """Whether the archive says under *known* what *path* says here."""
        if known not in self.known:
            return False
        content = place_of(self.layout.root, path).read_bytes()
        return substance(path, content) == substance(known, self.parcel.read(self.known[known]))


def _is_archived(known: str, stream: re.Match[str]) -> bool:
    archived = _ARCHIVED.fullmatch(known)
    return archived is not None and archived.groups() == stream.groups()


def _another_log(parcel: Parcel, layout: Layout, strangers: Sequence[str]) -> Refused:
    shown = ", ".join(strangers[:_SHOWN]) + (f" and {len(strangers) - _SHOWN} more" if strangers[_SHOWN:] else "")
    return Refused(
        f"{layout.state} holds what is not in {parcel.path}: {shown}",
        remedy="two logs cannot be joined: import into a clone without one, or move this .mino away first",
    )
