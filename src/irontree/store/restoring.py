"""Bringing files of the log back from earlier versions of them (ruling R13); what is there is never touched."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.domain.digest import event_digest
from irontree.domain.loop import LoopEntity
from irontree.domain.plan import Plan
from irontree.errors import LogDamaged
from irontree.store.documents import decode_value
from irontree.store.files import Disk, disk_errors
from irontree.store.layout import STATE_FOLDER, Layout
from irontree.store.locks import exclusive
from irontree.store.plans import PLAN_BYTES
from irontree.store.streams import ISSUE_FORM, LOOP_EVENT_BYTES, LOOP_FORM

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent
    from irontree.domain.loop_events import LoopEvent

_ISSUE_EVENT = re.compile(r"\.mino/(events/issue-\d+|archive/[^/]+/events)/[^/]+\.ya?ml")
_LOOP_EVENT = re.compile(r"\.mino/loops/[^/]+/events/[^/]+\.ya?ml")
_PLAN = re.compile(r"\.mino/plans/[^/]+\.yml")
_ENTITY = re.compile(r"\.mino/loops/[^/]+\.yml")


def restore(root: Path, versions: Mapping[str, Sequence[bytes]], disk: Disk | None = None) -> tuple[str, ...]:
    """Write what is not there from its *versions* (path -> contents, newest first); the paths that were written.

    Raises LogDamaged for a path that leads out of `.mino/`, before anything is written.
    """
    layout, writer = Layout(root), disk or Disk()
    places = {path: place_of(root, path) for path in versions}
    with exclusive(layout.append_lock), disk_errors(layout.state):
        lost = [path for path in sorted(versions) if not places[path].exists()]
        for path in lost:
            writer.write_durably(places[path], sound_version(path, versions[path]))
    return tuple(lost)


def place_of(root: Path, path: str) -> Path:
    """Where *path* (`.mino/…`, with `/`) is on disk; raises LogDamaged if that is not beneath `.mino/`."""
    parts = path.split("/")
    state = root / STATE_FOLDER
    place = root.joinpath(*parts)
    if parts[0] != STATE_FOLDER or len(parts) == 1 or {"", ".", ".."} & {*parts} or "\0" in path:
        raise LogDamaged(f"{path!r} leads out of {STATE_FOLDER}")
    if not place.parent.resolve().is_relative_to(state.resolve()):
        raise LogDamaged(f"{path}: a link leads out of {state}", remedy="remove that link")
    return place


def sound_version(path: str, versions: Sequence[bytes]) -> bytes:
    """The newest of *versions* that is what was written first: an edited event was backed up, too.

    Only the URL of an event's reply may have come later. Of other files it is the newest that can be read.
    """
    readable = [data for data in versions if _is_readable(path, data)] or [*versions]
    if not is_event(path):
        return readable[0]
    first = substance(path, readable[-1])
    return next(data for data in readable if substance(path, data) == first)


def substance(path: str, data: bytes) -> str:
    """64 hex, the same for two contents of *path* that say the same: an event whose reply is known by now."""
    try:
        event = _read_event(path, data)
    except LogDamaged:
        event = None
    return event_digest(event) if event else hashlib.sha256(data).hexdigest()


def _is_readable(path: str, data: bytes) -> bool:
    try:
        if _PLAN.fullmatch(path):
            decode_value(Plan, data, path, limit=PLAN_BYTES, remedy="")
        elif _ENTITY.fullmatch(path):
            decode_value(LoopEntity, data, path, limit=LOOP_EVENT_BYTES, remedy="")
        else:
            _read_event(path, data)
    except LogDamaged:
        return False
    return True


def is_event(path: str) -> bool:
    """Whether *path* is the place of an issue's or a loop's event."""
    return bool(_ISSUE_EVENT.fullmatch(path) or _LOOP_EVENT.fullmatch(path))


def _read_event(path: str, data: bytes) -> IssueEvent | LoopEvent | None:
    if _ISSUE_EVENT.fullmatch(path):
        return ISSUE_FORM.decode(data, path).event
    return LOOP_FORM.decode(data, path).event if _LOOP_EVENT.fullmatch(path) else None
