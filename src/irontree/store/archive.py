"""The archive that `export` writes and `import` reads, and how missing files of the log are restored (R13, R21).

    manifest.json     version, workspace id, home, counts of events, refs, and size and SHA-256 of every file
    refs.bundle       `refs/irontree/*` with their objects, a git bundle
    .mino/…           plans, events, archive, loops, agent-requests, drafts, reports, deliveries, forge, config.yml

It is not compressed: nothing in it can be larger than the archive itself.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from irontree.domain.digests import event_digest
from irontree.domain.loop import LoopEntity
from irontree.domain.plan import Plan
from irontree.domain.text import few
from irontree.domain.values import Event, Value
from irontree.errors import LogDamaged, Refused
from irontree.files import Disk, disk_errors, is_held, is_leftover, take_lock
from irontree.store.codec import first_error
from irontree.store.documents import PLAN_BYTES, decode_value, encode_value
from irontree.store.layout import STATE_FOLDER, Layout
from irontree.store.locks import exclusive
from irontree.store.streams import FORMS, LOOP_EVENT_BYTES, UPGRADE

CONFIG: Final = f"{STATE_FOLDER}/config.yml"
FOLDERS: Final = ("forge", "reports", "deliveries", "drafts", "agent-requests", "archive", "plans", "loops", "events")
"""What is truth or cannot be rebuilt; the log last, because files are written in this order."""
_PART_BYTES: Final = 200
"""Common file systems take 255; the temporary beside a file has a longer name."""
_NAME_BYTES: Final = 1024
# Locks of processes on this machine: meaningless elsewhere, and no loop is active once the home is packed.
_LEFT_BEHIND: Final = frozenset({".lock", ".lease", "active.lock"})


def stays_behind(name: str) -> bool:
    """Whether a file of that name means nothing in another place."""
    return name in _LEFT_BEHIND or is_leftover(name)


def is_place(path: str) -> bool:
    """Whether that path is allowed for a file of the state folder in an archive, which may be foreign."""
    if path == CONFIG:
        return True
    state, *parts = path.split("/")
    is_ours = state == STATE_FOLDER and len(parts) > 1 and parts[0] in FOLDERS and not stays_behind(parts[-1])
    return is_ours and all(map(_is_sane, parts)) and len(path.encode()) <= _NAME_BYTES


def _is_sane(part: str) -> bool:
    """Printable, so that no terminal is led by it, and what every file system can keep."""
    return part.isprintable() and part not in {"", ".", ".."} and "\\" not in part and len(part.encode()) <= _PART_BYTES


def clash(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two of *paths* of which a disk may keep only one: spelled alike, or one the folder of the other."""
    folders: dict[str, str] = {}
    files: dict[str, str] = {}
    for path in paths:
        name = unicodedata.normalize("NFC", path).casefold()
        if name in files:
            return files[name], path
        files[name] = path
        parts = name.split("/")
        folders.update({"/".join(parts[:depth]): path for depth in range(1, len(parts))})
    return next(((path, folders[name]) for name, path in files.items() if name in folders), None)


# --- The archive that `export` writes and `import` reads


MANIFEST: Final = "manifest.json"
BUNDLE: Final = "refs.bundle"
FILE_BYTES: Final = 256 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_REMEDY: Final = "export again, or copy the file again"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ArchiveEntry(Value):
    """One file of the archive."""

    path: str
    size: int = Field(ge=0)
    sha256: Digest


class Manifest(Value):
    """What the archive says of itself."""

    version: Literal[1]
    program: str
    workspace_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
    home: str
    exported_at: str
    branch: str | None
    """The branch that was checked out, and its commit."""
    tip: str | None
    events: dict[str, int]
    """Per issue (`issue-7`) and loop the highest sequence."""
    refs: dict[str, str]
    files: tuple[ArchiveEntry, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that was read through and is what its manifest says; *offsets* is where each file begins."""

    path: Path
    manifest: Manifest
    offsets: Mapping[str, int]

    @property
    def digest(self) -> str:
        """64 hex over all that it holds: the manifest has the digest of every file."""
        return hashlib.sha256(self.manifest.model_dump_json().encode()).hexdigest()

    def entries(self) -> Iterator[ArchiveEntry]:
        """The files of the state folder."""
        return (entry for entry in self.manifest.files if entry.path != BUNDLE)

    def read(self, entry: ArchiveEntry) -> bytes:
        """The content of a file; raises Refused if the archive has changed since."""
        with disk_errors(self.path), self.path.open("rb") as file:
            file.seek(self.offsets[entry.path])
            data = file.read(entry.size)
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise _damaged(self.path, f"{entry.path} has changed while it was read")
        return data

    def copy_bundle(self, target: Path) -> None:
        """Write the git bundle to *target*."""
        size = next(entry.size for entry in self.manifest.files if entry.path == BUNDLE)
        with disk_errors(target), self.path.open("rb") as file, target.open("wb") as copy:
            file.seek(self.offsets[BUNDLE])
            for piece in _pieces(file, size):
                copy.write(piece)


def files_to_pack(layout: Layout) -> Iterator[tuple[str, Path]]:
    """Path in the archive and on disk of every file that goes into it, in its order.

    Raises Refused for a link, a file of more than FILE_BYTES or an odd name: `import` would not take it.
    """
    if layout.config.exists():
        yield CONFIG, layout.config
    for folder in FOLDERS:
        for path in sorted((layout.state / folder).rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            if stays_behind(path.name):
                continue
            if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES:
                raise Refused(f"{path} is no plain file of at most {FILE_BYTES >> 20} MiB", remedy="move it away")
            if not is_place(name := layout.shown(path)):
                raise Refused(f"{name!r}: not every file system takes that name", remedy="rename it, or move it away")
            yield name, path


def entry_of(name: str, path: Path) -> ArchiveEntry:
    """What the manifest says of the file at *path*."""
    with disk_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return ArchiveEntry(path=name, size=size, sha256=_digest(file, size))


def write_archive(target: Path, manifest: Manifest, sources: Mapping[str, Path]) -> None:
    """Write the archive durably under a name that is free; *sources* says where its files are.

    Raises Refused if *target* is there.
    """
    if target.exists():
        raise Refused(f"{target} is there already", remedy="name another file, or move that one away")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    _remove_killed(target)
    with disk_errors(target):
        try:
            with temporary.open("xb") as file:
                take_lock(file.fileno())
                with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                    _add(archive, MANIFEST, io.BytesIO(data := manifest.model_dump_json(indent=1).encode()), len(data))
                    for entry in manifest.files:
                        with sources[entry.path].open("rb") as source:
                            _add(archive, entry.path, source, entry.size)
                file.flush()
                os.fsync(file.fileno())
            read_archive(temporary)  # a file that changed while it was packed
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)


def _remove_killed(target: Path) -> None:
    """Remove what exports to the same name wrote before they were killed: whoever writes one holds its lock."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9]+\.tmp")
    with suppress(OSError):
        for path in target.parent.iterdir():
            if pattern.fullmatch(path.name) and not is_held(path):
                path.unlink()


def read_archive(path: Path) -> Archive:
    """Read the whole archive and compare it with its manifest; nothing is written.

    Raises Refused for whatever is not an archive of ours, whole and unchanged: links, other paths, other sizes.
    """
    if not path.is_file():
        raise Refused(f"there is no file {path}", remedy="name the archive that `irontree move export` wrote")
    try:
        with disk_errors(path), tarfile.open(path, mode="r:") as archive:
            return _checked(path, archive)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _damaged(path, f"it is no tar archive, or not all of one ({error})") from error


def _checked(path: Path, archive: tarfile.TarFile) -> Archive:
    manifest = _read_manifest(path, archive)
    expected = {entry.path: entry for entry in manifest.files}
    if len(expected) != len(manifest.files) or BUNDLE not in expected:
        raise _damaged(path, "its manifest names a file twice, or no git objects")
    offsets = {}
    while (member := archive.next()) is not None:
        entry = expected.get(member.name)
        if entry is None or member.name in offsets or not (member.name == BUNDLE or is_place(member.name)):
            raise _damaged(path, f"{member.name!r} does not belong into it")
        if not _is_plain(member) or member.size != entry.size or _content_digest(archive, member) != entry.sha256:
            raise _damaged(path, f"{member.name} is not the file that its manifest names")
        offsets[member.name] = member.offset_data
    if lacking := expected.keys() - offsets.keys():
        raise _damaged(path, f"{min(lacking)} is missing")
    if both := clash(expected):
        raise Refused(
            f"{path}: {both[0]!r} and {both[1]!r} cannot both be files on every disk",
            remedy="rename one of them where it was exported, and export again",
        )
    return Archive(path, manifest, offsets)


def _read_manifest(path: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    if first is None or first.name != MANIFEST or not _is_plain(first) or first.size > FILE_BYTES:
        raise _damaged(path, f"it does not begin with {MANIFEST}: `irontree move export` did not write it")
    content = archive.extractfile(first)
    try:
        return Manifest.model_validate_json(content.read() if content else b"")
    except ValidationError as error:
        if any(found["type"] == "literal_error" for found in error.errors()):
            raise Refused(f"{path}: an archive of another version than 1", remedy=UPGRADE) from error
        raise _damaged(path, f"{MANIFEST}: {first_error(error)}") from error


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None


def _content_digest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    if member.name != BUNDLE and member.size > FILE_BYTES:
        return ""
    content = archive.extractfile(member)
    return _digest(content, member.size) if content else ""


def _digest(file: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(file, size):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := file.read(min(_PIECE, size))):
        size -= len(piece)
        yield piece


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    archive.addfile(member, content)


def _damaged(path: Path, what: str) -> Refused:
    return Refused(f"{path}: {what}", remedy=_REMEDY)


# --- Bringing files of the log back from earlier versions of them


_PLAN = re.compile(r"\.mino/plans/[^/]+\.yml")
_ENTITY = re.compile(r"\.mino/loops/[^/]+\.yml")


def restore(root: Path, versions: Mapping[str, Sequence[bytes]]) -> tuple[str, ...]:
    """Write missing files from their *versions* (path -> contents, newest first); returns the paths written.

    Raises LogDamaged for a path that leads out of `.mino/`, before anything is written.
    """
    layout, writer = Layout(root), Disk()
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
    """A digest (64 hex) that ignores what may be added later: the URL of an event's reply."""
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
    """Whether *path* is the place of an event."""
    return any(form.holds(path) for form in FORMS)


def _read_event(path: str, data: bytes) -> Event | None:
    return next((form.decode(data, path).event for form in FORMS if form.holds(path)), None)


# --- Taking the files of an archive into a repository's state folder


_STREAM = re.compile(r"\.mino/events/(issue-\d+)/([^/]+)")
_ARCHIVED = re.compile(r"\.mino/archive/(issue-\d+)-rev-[^/]+/events/([^/]+)")
_FORGE = re.compile(r"\.mino/forge/issues/[^.].*")


@dataclass(frozen=True, slots=True)
class PlannedImport:
    """What the archive would change: files to write, files of streams that were archived since, and what stays."""

    archive: Archive
    layout: Layout
    writes: tuple[ArchiveEntry, ...]
    superseded: tuple[Path, ...]
    keeps_config: bool
    """Whether the configuration here differs, in which case it stays."""

    def carry_out(self, disk: Disk | None = None, *, trusted: bool = False) -> None:
        """Write everything durably; the same again, after a kill too, ends in the same files.

        Unless it is *trusted*, no approval of a plan counts here.
        """
        writer = disk or Disk()
        with exclusive(self.layout.append_lock):
            for path in self.superseded:
                path.unlink(missing_ok=True)
            for entry in self.writes:
                data = self.archive.read(entry)
                marked = None if trusted else _as_imported(entry.path, data)
                writer.write_durably(place_of(self.layout.root, entry.path), marked or data)


_IN_FORCE = re.compile(r"\.mino/plans/[0-9a-f]{8}(?:[0-9a-f]{56})?\.yml")


def plans_in(archive: Archive) -> Iterator[Plan]:
    """The plans in force of the archive that can be read."""
    for entry in archive.entries():
        if _IN_FORCE.fullmatch(entry.path) and _is_readable(entry.path, data := archive.read(entry)):
            yield decode_value(Plan, data, entry.path, limit=PLAN_BYTES, remedy="")


def _as_imported(path: str, data: bytes, *, imported: bool = True) -> bytes | None:
    """The plan in *data* with or without the mark; None for another file, and for what no approval is read from."""
    if not _IN_FORCE.fullmatch(path) or not _is_readable(path, data):
        return None
    plan = decode_value(Plan, data, path, limit=PLAN_BYTES, remedy="")
    return encode_value(plan.model_copy(update={"imported": imported}))


def plan_import(archive: Archive, layout: Layout) -> PlannedImport:
    """Compare the archive with what is here; writes nothing.

    Raises Refused if anything of the log here is not in the archive: its log must be the same one, gone on.
    """
    known = {entry.path: entry for entry in archive.entries()}
    for path in known:
        place_of(layout.root, path)  # a link may lead elsewhere
    here = {path: entry_of(path, place) for path, place in files_to_pack(layout)}
    both = _Both(archive, layout, known, here)
    if strangers := tuple(both.strangers()):
        raise _another_log(archive, layout, strangers)
    changed = {path for path, entry in known.items() if here.get(path) != entry}
    keeps_config = CONFIG in changed & here.keys()
    writes = tuple(known[path] for path in known if path in changed and not (keeps_config and path == CONFIG))
    superseded = tuple(place_of(layout.root, path) for path in here if is_event(path) and path not in known)
    return PlannedImport(archive, layout, writes, superseded, keeps_config)


@dataclass(frozen=True, slots=True)
class _Both:
    """The files of the archive (*known*) beside those that are here."""

    archive: Archive
    layout: Layout
    known: Mapping[str, ArchiveEntry]
    here: Mapping[str, ArchiveEntry]

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
                is_stranger = entry.sha256 not in plans and self._unmarked(path) not in plans
            else:  # with a log, these are its earlier projections; without one, issues that a user wrote
                is_stranger = not has_log and bool(_FORGE.fullmatch(path))
            if is_stranger:
                yield path

    def _unmarked(self, path: str) -> str:
        """The digest of the plan here as it was in an archive whose import was cut off."""
        data = _as_imported(path, place_of(self.layout.root, path).read_bytes(), imported=False)
        return hashlib.sha256(data or b"").hexdigest()

    def _was_archived(self, path: str) -> bool:
        """Whether the event has since been moved to an archived stream of its issue (R7)."""
        stream = _STREAM.fullmatch(path)
        moved = (known for known in self.known if stream and _is_archived(known, stream))
        return any(self._goes_on(path, known) for known in moved)

    def _goes_on(self, path: str, known: str) -> bool:
        """Whether the archive says under *known* what *path* says here."""
        if known not in self.known:
            return False
        content = place_of(self.layout.root, path).read_bytes()
        return substance(path, content) == substance(known, self.archive.read(self.known[known]))


def _is_archived(known: str, stream: re.Match[str]) -> bool:
    archived = _ARCHIVED.fullmatch(known)
    return archived is not None and archived.groups() == stream.groups()


def _another_log(archive: Archive, layout: Layout, strangers: Sequence[str]) -> Refused:
    return Refused(
        f"{layout.state} holds what is not in {archive.path}: {few(strangers)}",
        remedy="two logs cannot be joined: import into a clone without one, or move this .mino away first",
    )
