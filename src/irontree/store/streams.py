"""What a stream is and where its files are: names, blocks, order, gaps, reading, and the durable append (R2).

Both event logs (issues and loops), on disk and in memory, are made of these functions. Rulings R1, R2, R13.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Generic, Protocol

from pydantic import ValidationError

from irontree.domain.digests import event_digest
from irontree.domain.events import ISSUE_EVENTS, E, IssueEvent, Record, kebab
from irontree.domain.loop import LOOP_EVENTS, LoopEvent
from irontree.domain.timestamps import utc_text
from irontree.errors import IrontreeError, LogDamaged, NotEligible, Refused, SequenceConflict
from irontree.files import Disk, disk_errors, is_leftover, read_bytes
from irontree.ports import Problem, Stream
from irontree.store.codec import EVENT_BYTES, first_error, read_mapping, write_mapping

# --- What a stream is, wherever its files are: names, blocks, order, what counts as missing, and the next file


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
        ...

    def names(self) -> Iterable[str]:
        """All file names, in any order."""
        ...

    def load(self, name: str) -> bytes:
        """The content of one of them."""
        ...


@dataclass(frozen=True, slots=True)
class Contents(Generic[E]):
    """The readable events in sequence order, the problems, and the highest sequence among the file names."""

    records: tuple[Record[E], ...]
    problems: tuple[Problem, ...]
    highest_sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class StreamForm(Generic[E]):
    """How one kind of event stands in its file: under *block*, beside `meta:`; *owner* names its stream."""

    block: str
    owner: str
    models: Mapping[str, type[E]]
    limit: int

    def file_name(self, event: E) -> str:
        """`{sequence:04d}-{event-kebab}.yml`."""
        return f"{event.sequence:04d}-{kebab(event.event)}.yml"

    def encode(self, event: E, meta: Mapping[str, Any]) -> bytes:
        """The file's bytes, keys in the model's order."""
        return write_mapping({self.block: event.model_dump(mode="json"), "meta": meta}).encode()

    @lru_cache(maxsize=_DECODED)  # noqa: B019 - the two forms live as long as the program
    def decode(self, data: bytes, path: str) -> Record[E]:
        """The event in *data*; raises LogDamaged saying what is wrong with it."""
        mapping = read_mapping(data, path, limit=self.limit)
        block, meta = mapping.get(self.block), mapping.get("meta")
        if not isinstance(block, dict):
            raise LogDamaged(f"{path}: no `{self.block}:` block")
        try:
            event = self._model(block, path).model_validate(block)
        except ValidationError as error:
            raise LogDamaged(f"{path}: {first_error(error)}") from error
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


ISSUE_FORM: StreamForm[IssueEvent] = StreamForm("iron_tree", "issue_number", ISSUE_EVENTS, EVENT_BYTES)
LOOP_FORM: StreamForm[LoopEvent] = StreamForm("loop", "loop_id", LOOP_EVENTS, LOOP_EVENT_BYTES)


def read_stream(form: StreamForm[E], files: EventFiles, owner: object) -> Contents[E]:
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
            records.append(_read(form, files, name, owner))
        except IrontreeError as error:
            problems.append(problem_of(path, error))
    return Contents(tuple(records), tuple(problems), numbered[-1][0] if numbered else 0)


def problem_of(path: str, error: IrontreeError) -> Problem:
    """What keeps the file at *path* from being used."""
    what = error.message.removeprefix(path).lstrip(":, ")
    return Problem(path, what, newer=isinstance(error, WrittenByNewer))


def issue_stream(files: EventFiles, issue_number: int) -> Stream:
    """All events of an issue; unreadable files become problems, never exceptions."""
    found = read_stream(ISSUE_FORM, files, issue_number)
    return Stream(found.records, found.problems, found.highest_sequence)


def archive_names(issue_number: int, revision: str) -> Iterator[str]:
    """What the folder of an earlier stream may be called, the first that is free: the same text may be left twice."""
    name = f"issue-{issue_number}-rev-{revision}"
    yield name
    yield from (f"{name}-{turn}" for turn in count(2))


def number_in(archive_name: str) -> int:
    """The issue whose earlier stream a folder of that name holds: `issue-{N}-rev-{revision}`."""
    return int(archive_name.removeprefix("issue-").partition("-")[0])


def _numbered(files: EventFiles) -> list[tuple[int, str]]:
    """Files that look like events, by number: `{seq:04d}` has no order as text beyond 9,999."""
    return sorted((int(match[1]), name) for name in files.names() if (match := _EVENT_NAME.fullmatch(name)))


def _read(form: StreamForm[E], files: EventFiles, name: str, owner: object) -> Record[E]:
    path = f"{files.where}/{name}"
    record = form.decode(files.load(name), path)
    if record.event.sequence != int(name.partition("-")[0]):
        raise LogDamaged(f"{path}: holds sequence {record.event.sequence}, its name says otherwise")
    if (found := getattr(record.event, form.owner)) != owner:
        raise LogDamaged(f"{path}: belongs to {form.owner} {found}")
    return record


def next_file(
    form: StreamForm[E],
    files: EventFiles,
    event: E,
    *,
    expected_sequence: int,
    meta: Mapping[str, Any],
    moment: datetime,
) -> tuple[str, bytes, Record[E]]:
    """Name and bytes of the file that appends *event*, and the record as it will be read.

    Raises SequenceConflict if the stream does not end at *expected_sequence*, ValueError if *event* is not the
    next one, Refused if it does not fit into an event file.
    """
    numbered = _numbered(files)
    highest = numbered[-1][0] if numbered else 0
    if expected_sequence != highest:
        raise SequenceConflict(
            f"{files.where}: expected to end at sequence {expected_sequence}, ends at {highest}",
            remedy="another process wrote first; look at the state again",
        )
    if event.sequence != expected_sequence + 1:
        raise ValueError(f"event has sequence {event.sequence}, expected {expected_sequence + 1}")
    own = {"time": utc_text(moment), "previous": _digest_of(form, files, numbered)}
    data = form.encode(event, own | dict(meta) | own)
    if len(data) > form.limit:
        raise Refused(f"{files.where}: {event.event} would be larger than {form.limit} bytes")
    name = form.file_name(event)
    return name, data, form.decode(data, f"{files.where}/{name}")


def restored_files(records: Iterable[Record[IssueEvent]], moment: datetime) -> dict[str, bytes]:
    """File names and bytes of a whole stream, each event under its own sequence, chained where they follow."""
    files: dict[str, bytes] = {}
    before: IssueEvent | None = None
    for record in sorted(records, key=lambda record: record.event.sequence):
        event = record.event
        follows = before is not None and before.sequence == event.sequence - 1
        own = {"time": utc_text(moment), "previous": event_digest(before) if before and follows else None}
        files[ISSUE_FORM.file_name(event)] = ISSUE_FORM.encode(event, own | record.meta | own)
        before = event
    return files


def _digest_of(form: StreamForm[E], files: EventFiles, numbered: list[tuple[int, str]]) -> str | None:
    """Digest of the last event; None for an empty stream, or one whose end cannot be read."""
    if not numbered or [sequence for sequence, _ in numbered].count(numbered[-1][0]) > 1:
        return None
    try:
        return event_digest(form.decode(files.load(numbered[-1][1]), files.where).event)
    except IrontreeError:  # damaged, a folder in its place, or not ours to read: a problem of the stream, told there
        return None


def replied_file(files: EventFiles, issue_number: int, sequence: int, url: str) -> tuple[str, bytes] | None:
    """Name and bytes of that event with `reply_posted` set to *url*; None if it already is (ruling R10).

    Raises NotEligible if there is no such readable event, it takes no reply, or it has another one.
    """
    where = f"{files.where}, sequence {sequence}"
    names = [name for number, name in _numbered(files) if number == sequence]
    if len(names) != 1:
        raise NotEligible(f"{where}: {len(names)} events there, one is needed to note a reply on")
    record = _read(ISSUE_FORM, files, names[0], issue_number)
    before = getattr(record.event, "reply_posted", url)
    if "reply_posted" not in type(record.event).model_fields or before not in {None, url}:
        raise NotEligible(f"{where}: {record.event.event} takes no reply, or has another one")
    if before == url:
        return None
    return names[0], ISSUE_FORM.encode(record.event.model_copy(update={"reply_posted": url}), record.meta)


# --- Events in the YAML blocks of a comment, as tools before 1.12 wrote them (protocol, Source Of Truth)


_FENCED = re.compile(
    r"^(?P<fence>`{3,}|~{3,})ya?ml[ \t]*\r?\n(?P<yaml>.*?)^(?P=fence)[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
_EVENT = re.compile(rf"^{ISSUE_FORM.block}:", re.MULTILINE)


def read_blocks(text: str, where: str, issue_number: int) -> Stream:
    """The events of the issue in *text*, in the order they stand there; blocks without an event are passed over."""
    records, problems = [], []
    for yaml in _event_blocks(text):
        try:
            records.append(_read_block(yaml, where, issue_number))
        except IrontreeError as error:
            problems.append(problem_of(where, error))
    highest = max((record.event.sequence for record in records), default=0)
    return Stream(tuple(records), tuple(problems), highest)


def _event_blocks(text: str) -> Iterator[str]:
    blocks = (found["yaml"] for found in _FENCED.finditer(text))
    return (yaml for yaml in blocks if _EVENT.search(yaml))


def _read_block(yaml: str, where: str, issue_number: int) -> Record[IssueEvent]:
    record = ISSUE_FORM.decode(yaml.encode(errors="surrogatepass"), where)
    if record.event.issue_number != issue_number:
        raise LogDamaged(f"{where}: speaks of issue {record.event.issue_number}")
    return record


# --- Streams as folders of files: reading them, and the durable append (ruling R2)


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
    form: StreamForm[E],
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
