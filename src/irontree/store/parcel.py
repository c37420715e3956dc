"""The archive that `export` writes and `import` reads: a plain tar of regular files, each as its manifest says (R21).

    manifest.json     version, workspace id, home, counts of events, refs, and size and SHA-256 of every file
    refs.bundle       `refs/irontree/*` with their objects, a git bundle
    .mino/…           plans, events, archive, loops, reports, deliveries, forge, config.yml

It is not compressed: nothing in it can be larger than the archive itself.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from irontree.domain.values import Value
from irontree.errors import Refused
from irontree.store.documents import first_error
from irontree.store.files import disk_errors
from irontree.store.parcel_names import CONFIG, FOLDERS, clash, is_place, stays_behind
from irontree.store.streams import UPGRADE

if TYPE_CHECKING:
    from irontree.store.layout import Layout

MANIFEST: Final = "manifest.json"
BUNDLE: Final = "refs.bundle"
FILE_BYTES: Final = 256 * 1024 * 1024
MANIFEST_BYTES: Final = 256 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_REMEDY: Final = "export again, or copy the file again"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Entry(Value):
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
    files: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Parcel:
    """An archive that was read through and is what its manifest says; *offsets* is where each file begins."""

    path: Path
    manifest: Manifest
    offsets: Mapping[str, int]

    def entries(self) -> Iterator[Entry]:
        """The files of the state folder."""
        return (entry for entry in self.manifest.files if entry.path != BUNDLE)

    def read(self, entry: Entry) -> bytes:
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


def entry_of(name: str, path: Path) -> Entry:
    """What the manifest says of the file at *path*."""
    with disk_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return Entry(path=name, size=size, sha256=_digest(file, size))


def write_parcel(target: Path, manifest: Manifest, sources: Mapping[str, Path]) -> None:
    """Write the archive durably under a name that is free; *sources* says where its files are.

    Raises Refused if *target* is there.
    """
    if target.exists():
        raise Refused(f"{target} is there already", remedy="name another file, or move that one away")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with disk_errors(target):
        try:
            with temporary.open("xb") as file:
                with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                    _add(archive, MANIFEST, io.BytesIO(data := _encode(manifest)), len(data))
                    for entry in manifest.files:
                        with sources[entry.path].open("rb") as source:
                            _add(archive, entry.path, source, entry.size)
                file.flush()
                os.fsync(file.fileno())
            read_parcel(temporary)  # a file that changed while it was packed
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)


def read_parcel(path: Path) -> Parcel:
    """Read the whole archive and compare it with its manifest; nothing is written.

    Raises Refused for whatever is not an archive of ours, whole and unchanged: links, other paths, other sizes.
    """
    if not path.is_file():
        raise Refused(f"there is no file {path}", remedy="name the archive that `irontree export` wrote")
    try:
        with disk_errors(path), tarfile.open(path, mode="r:") as archive:
            return _checked(path, archive)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _damaged(path, f"it is no tar archive, or not all of one ({error})") from error


def _checked(path: Path, archive: tarfile.TarFile) -> Parcel:
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
    return Parcel(path, manifest, offsets)


def _read_manifest(path: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    if first is None or first.name != MANIFEST or not _is_plain(first) or first.size > MANIFEST_BYTES:
        raise _damaged(path, f"it does not begin with {MANIFEST}: `irontree export` did not write it")
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


def _encode(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=1).encode()


def _damaged(path: Path, what: str) -> Refused:
    return Refused(f"{path}: {what}", remedy=_REMEDY)
