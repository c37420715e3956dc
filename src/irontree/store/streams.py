"""What a stream is and where its files are: names, blocks, order, gaps, reading, and the durable append (R2).

Both event logs (issues and loops), on disk and in memory, are made of these functions. Rulings R1, R2, R13.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol

from irontree.domain.digests import event_digest
from irontree.domain.events import ISSUE_EVENTS, E, IssueEvent, Record, StreamId, kebab
from irontree.domain.loop import LOOP_EVENTS, LoopEvent
from irontree.domain.timestamps import utc_text
from irontree.errors import IrontreeError, LogDamaged, NotEligible, Refused, SequenceConflict
from irontree.files import Disk, disk_errors, is_leftover, read_bytes
from irontree.ports import Clock, EventStream, N, Problem
from irontree.store.codec import EVENT_BYTES, read_mapping, typed, write_mapping
from irontree.store.layout import STATE_FOLDER

# A loop's frozen set can have thousands of task keys.
LOOP_EVENT_BYTES = 4 * 1024 * 1024
# One step reads the same few events a dozen times; a log that is read through once gains nothing from more.
_DECODED = 256
# Ours are lower-case; whatever else looks like an event must not be passed over in silence.
_EVENT_NAME = re.compile(r"(\d+)-[a-z0-9_-]+\.ya?ml", re.IGNORECASE)
UPGRADE = "upgrade irontree: a newer version wrote it"


class WrittenByNewer(LogDamaged):
    """Nothing is wrong with the file, but this version does not know what it says (S3)."""


class EventFiles(Protocol):
    """The files of one stream."""

    @property
    def where(self) -> str:
        """The folder, as people read it."""

    def names(self) -> Iterable[str]:
        """All file names, in any order."""

    def load(self, name: str) -> bytes:
        """The content of one of them."""

    def write(self, name: str, data: bytes) -> None:
        """Put it in place of what is there."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamForm(Generic[N, E]):
    """One kind of stream: where it is, and how its events stand in their files, under *block* beside `meta:`.

    `{}` in *folder*, below the state folder, is the stream's name, which *pattern* tells and *parse* reads; an
    event's key *owner* holds it too. *beside* are files that are archived with it: place by name in the archive.
    """

    kind: str
    folder: str
    pattern: str
    parse: Callable[[str], N]
    block: str
    owner: str
    models: Mapping[str, type[E]]
    limit: int
    beside: Mapping[str, str] = field(default_factory=dict)

    def id(self, name: N) -> StreamId:
        """The stream of that name."""
        return StreamId(self.kind, str(name))

    def place(self, name: N) -> str:
        """Its folder, from the repository's root."""
        return f"{STATE_FOLDER}/{self.folder.format(name)}"

    def holds(self, path: str) -> bool:
        """Whether *path*, from the repository's root, is that of an event file of this kind, archived or not."""
        folder = rf"{self.folder.format('[^/]+')}|archive/{self.kind}-[^/]+/events"
        return re.fullmatch(rf"{re.escape(STATE_FOLDER)}/(?:{folder})/[^/]+\.ya?ml", path) is not None

    def archive_names(self, name: N, revision: str) -> Iterator[str]:
        """What the folder of an earlier stream may be called, best first: the same text may be left twice."""
        first = f"{self.id(name)}-rev-{revision}"
        yield first
        yield from (f"{first}-{turn}" for turn in count(2))

    def archived(self, archive: str) -> N | None:
        """The name of the stream whose earlier life a folder of that name holds; None if it is of another kind."""
        found = re.fullmatch(rf"{self.kind}-({self.pattern})-rev-.*", archive)
        return self.parse(found[1]) if found else None

    def file_name(self, event: E) -> str:
        """`{sequence:04d}-{event-kebab}.yml`."""
        return f"{event.sequence:04d}-{kebab(event.event)}.yml"

    def encode(self, event: E, meta: Mapping[str, Any]) -> bytes:
        """The file's bytes, keys in the model's order."""
        return write_mapping({self.block: event.model_dump(mode="json"), "meta": meta}).encode()

    @lru_cache(maxsize=_DECODED)  # noqa: B019 - the forms live as long as the program
    def decode(self, data: bytes, path: str) -> Record[E]:
        """The event in *data*; raises LogDamaged saying what is wrong with it."""
        mapping = read_mapping(data, path, limit=self.limit)
        block, meta = mapping.get(self.block), mapping.get("meta")
        if not isinstance(block, dict):
            raise LogDamaged(f"{path}: no `{self.block}:` block")
        event = typed(self._model(block, path), block, path)
        return Record(event, meta if isinstance(meta, dict) else {})

    def _model(self, block: Mapping[str, Any], path: str) -> type[E]:
        if block.get("version") != "1":
            raise WrittenByNewer(f"{path}: protocol version {block.get('version')!r}; {UPGRADE}")
        name = block.get("event")
        if not isinstance(name, str):
            raise LogDamaged(f"{path}: it names no event")
        if name not in self.models:
            raise WrittenByNewer(f"{path}: unknown event {name!r}; {UPGRADE}")
        return self.models[name]


ISSUE_FORM: Final[StreamForm[int, IssueEvent]] = StreamForm(
    kind="issue",
    folder="events/issue-{}",
    pattern=r"[1-9]\d*",
    parse=int,
    block="iron_tree",
    owner="issue_number",
    models=ISSUE_EVENTS,
    limit=EVENT_BYTES,
    beside={"brief.md": "briefs/issue-{}.md"},
)
LOOP_FORM: Final[StreamForm[str, LoopEvent]] = StreamForm(
    kind="loop",
    folder="loops/{}/events",
    pattern=r"\d{4}-\d{2}-\d{2}-\d{4}-[0-9a-f]{6}",
    parse=str,
    block="loop",
    owner="loop_id",
    models=LOOP_EVENTS,
    limit=LOOP_EVENT_BYTES,
)
FORMS: Final[tuple[StreamForm[Any, Any], ...]] = (ISSUE_FORM, LOOP_FORM)
"""Every kind of stream that there is."""


# --- A log, wherever its files are: where that is, and how one of them is written, the adapters say


_FENCED = re.compile(
    r"^(?P<fence>`{3,}|~{3,})ya?ml[ \t]*\r?\n(?P<yaml>.*?)^(?P=fence)[ \t]*\r?$", re.MULTILINE | re.DOTALL
)


class StreamLog(Generic[N, E]):
    """What the adapters of the port `EventLog` share."""

    def __init__(self, form: StreamForm[N, E], clock: Clock) -> None:
        self._form = form
        self._clock = clock

    def read(self, name: N) -> EventStream[E]:
        """All events of the stream; unreadable files become problems, never exceptions."""
        return self._read_all(self._files(name), name)

    def append(self, event: E, *, expected_sequence: int, meta: Mapping[str, Any] | None = None) -> Record[E]:
        """Write *event* as `expected_sequence + 1`.

        Raises SequenceConflict if the stream does not end at *expected_sequence*: another writer was faster;
        ValueError if *event* is not the next one, Refused if it does not fit into an event file.
        """
        form, files = self._form, self._files(getattr(event, self._form.owner))
        with self._alone():
            numbered = _numbered(files)
            highest = numbered[-1][0] if numbered else 0
            if expected_sequence != highest:
                raise SequenceConflict(
                    f"{files.where}: expected to end at sequence {expected_sequence}, ends at {highest}",
                    remedy="another process wrote first; look at the state again",
                )
            if event.sequence != expected_sequence + 1:
                raise ValueError(f"event has sequence {event.sequence}, expected {expected_sequence + 1}")
            own = {"time": utc_text(self._clock.now()), "previous": self._digest_of_last(files, numbered)}
            data = form.encode(event, own | dict(meta or {}) | own)
            if len(data) > form.limit:
                raise Refused(f"{files.where}: {event.event} would be larger than {form.limit} bytes")
            name = form.file_name(event)
            record = form.decode(data, f"{files.where}/{name}")
            files.write(name, data)
        return record

    def record_reply(self, name: N, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once; the same again is nothing (ruling R10).

        Raises NotEligible if there is no such readable event, or it takes no reply or has another one.
        """
        files = self._files(name)
        with self._alone():
            where = f"{files.where}, sequence {sequence}"
            names = [file for number, file in _numbered(files) if number == sequence]
            if len(names) != 1:
                raise NotEligible(f"{where}: {len(names)} events there, one is needed to note a reply on")
            record = self._read_one(files, names[0], name)
            event = record.event
            before = getattr(event, "reply_posted", url)
            if "reply_posted" not in type(event).model_fields or before not in {None, url}:
                raise NotEligible(f"{where}: {event.event} takes no reply, or has another one")
            if before != url:
                files.write(names[0], self._form.encode(event.model_copy(update={"reply_posted": url}), record.meta))

    def read_text(self, text: str, where: str, name: N) -> EventStream[E]:
        """The events of the stream in the YAML blocks of a comment, as tools before 1.12 wrote them, in their order.

        Blocks without an event are passed over.
        """
        records, problems = [], []
        blocks = (found["yaml"] for found in _FENCED.finditer(text))
        for block in blocks:
            if not re.search(rf"^{self._form.block}:", block, re.MULTILINE):
                continue
            try:
                record = self._form.decode(block.encode(errors="surrogatepass"), where)
                if (found := getattr(record.event, self._form.owner)) != name:
                    raise LogDamaged(f"{where}: speaks of {self._form.kind} {found}")
                records.append(record)
            except IrontreeError as error:
                problems.append(_problem(where, error))
        highest = max((record.event.sequence for record in records), default=0)
        return EventStream(tuple(records), tuple(problems), highest)

    def archive_name(self, name: N, revision: str) -> str:
        """The first that is free."""
        names = self._form.archive_names(name, revision)
        return next(archive for archive in names if not self._is_taken(archive))

    def read_archived(self, archive: str) -> EventStream[E]:
        """All events of a stream that was moved away; unreadable files become problems."""
        name = self._form.archived(archive)
        if name is None:
            raise ValueError(f"{archive!r} is no archive of this kind")
        return self._read_all(self._archived_files(archive), name)

    def _restored(self, records: Iterable[Record[E]]) -> dict[str, bytes]:
        """File names and bytes of a whole stream, each event under its own sequence, chained where they follow."""
        files: dict[str, bytes] = {}
        before: E | None = None
        for record in sorted(records, key=lambda record: record.event.sequence):
            event = record.event
            follows = before is not None and before.sequence == event.sequence - 1
            own = {
                "time": utc_text(self._clock.now()),
                "previous": event_digest(before) if before and follows else None,
            }
            files[self._form.file_name(event)] = self._form.encode(event, own | record.meta | own)
            before = event
        return files

    def _read_all(self, files: EventFiles, owner: N) -> EventStream[E]:
        """Everything in *files*; what cannot be used becomes a problem and counts as missing."""
        numbered = _numbered(files)
        times = Counter(sequence for sequence, _ in numbered)
        records, problems = [], []
        for sequence, name in numbered:
            path = f"{files.where}/{name}"
            if times[sequence] > 1:
                problems.append(Problem(path, f"sequence {sequence} is taken by another file too"))
                continue
            try:
                records.append(self._read_one(files, name, owner))
            except IrontreeError as error:
                problems.append(_problem(path, error))
        return EventStream(tuple(records), tuple(problems), numbered[-1][0] if numbered else 0)

    def _read_one(self, files: EventFiles, name: str, owner: N) -> Record[E]:
        path = f"{files.where}/{name}"
        record = self._form.decode(files.load(name), path)
        if record.event.sequence != int(name.partition("-")[0]):
            raise LogDamaged(f"{path}: holds sequence {record.event.sequence}, its name says otherwise")
        if (found := getattr(record.event, self._form.owner)) != owner:
            raise LogDamaged(f"{path}: belongs to {self._form.owner} {found}")
        return record

    def _digest_of_last(self, files: EventFiles, numbered: list[tuple[int, str]]) -> str | None:
        """Digest of the last event; None for an empty stream, or one whose end cannot be read."""
        if not numbered or [sequence for sequence, _ in numbered].count(numbered[-1][0]) > 1:
            return None
        try:
            return event_digest(self._form.decode(files.load(numbered[-1][1]), files.where).event)
        except IrontreeError:  # damaged, a folder in its place, or not ours to read: told as the stream's problem
            return None

    def _files(self, name: N) -> EventFiles:
        raise NotImplementedError

    def _archived_files(self, archive: str) -> EventFiles:
        raise NotImplementedError

    def _is_taken(self, archive: str) -> bool:
        raise NotImplementedError

    def _alone(self) -> AbstractContextManager[object]:
        """Hold the lock of writers."""
        raise NotImplementedError


def _numbered(files: EventFiles) -> list[tuple[int, str]]:
    """Files that look like events, by number: `{seq:04d}` has no order as text beyond 9,999."""
    return sorted((int(match[1]), name) for name in files.names() if (match := _EVENT_NAME.fullmatch(name)))


def _problem(path: str, error: IrontreeError) -> Problem:
    """What keeps the file at *path* from being used."""
    what = error.message.removeprefix(path).lstrip(":, ")
    return Problem(path, what, newer=isinstance(error, WrittenByNewer))


# --- Streams as folders of files: finding and reading them, and the durable append (R2)


def stream_folders(form: StreamForm[N, E], state: Path) -> dict[N, str]:
    """Name -> path of every stream's folder in the state folder, in no order; empty where there is no log yet."""
    parent, _, own = form.folder.partition("/")
    segment, _, inner = own.partition("/")
    name = re.compile(segment.format(f"({form.pattern})"))
    try:
        with os.scandir(state / parent) as entries:
            found = {form.parse(match[1]): entry.path for entry in entries if (match := name.fullmatch(entry.name))}
    except FileNotFoundError:
        return {}
    return {name: f"{path}/{inner}" for name, path in found.items()} if inner else found


class StreamFolder(NamedTuple):
    """The files of one stream; *where* is the folder as people read it."""

    path: Path
    where: str
    limit: int
    disk: Disk

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

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably. Removes temporaries of killed writers: the append lock keeps others out."""
        with disk_errors(self.path):
            for path in self.path.glob(".*"):
                if is_leftover(path.name):
                    path.unlink(missing_ok=True)
        self.disk.write_durably(self.path / name, data)
