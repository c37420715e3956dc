"""The files of the `local` forge: numbered Markdown with front matter, one writer at a time.

Writers hold `flock` on `.lock`, which is never deleted; a file is replaced by one rename, so readers need no lock.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.errors import IrontreeError, LogDamaged, RemoteFailed, RemoteUnavailable
from irontree.files import SETTLED_NS, Disk, locked
from irontree.forges import ForgeSettings
from irontree.forges.markers import LineIndex, as_kept

Reader = Callable[[str], Mapping[str, Any]]
Writer = Callable[[Mapping[str, Any]], str]

# As `file_name` makes them.
_NAME = re.compile(r"(?:[0-9]{4}|[1-9][0-9]{4,})\.md")
_FRONT = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FrontMatterFile:
    """The text between the `---` lines, and the text after them."""

    head: str
    body: str

    def text(self) -> str:
        """The file's content."""
        return f"---\n{self.head}---\n\n{self.body}\n"


def split(text: str) -> FrontMatterFile:
    """Take a file apart; one without front matter is all body. A BOM and foreign line ends go."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = _FRONT.match(text)
    head, body = (found["head"], text[found.end() :]) if found else ("", text)
    return FrontMatterFile(head, body.removeprefix("\n").removesuffix("\n"))


def amend(head: str, changes: Mapping[str, Any], *, read: Reader, write: Writer) -> str:
    """Change some keys of a front matter and leave every other line, comments too, as it stands.

    A head that cannot be changed line by line (flow style over several lines, for example) is written anew.
    """
    anew = write({**read(head), **changes})
    amended = head
    for key, value in changes.items():
        amended = _splice(amended, key, write({key: value}))
    try:
        return amended if read(amended) == read(anew) else anew
    except IrontreeError:
        return anew


def _splice(head: str, key: str, entry: str) -> str:
    """Replace the lines of *key* (from its own to the next that is neither indented nor an item), or append."""
    lines = re.compile(rf"^{re.escape(key)}[ \t]*:[^\n]*\n(?:[ \t-][^\n]*\n)*", re.MULTILINE)
    head = head if head.endswith("\n") or not head else head + "\n"
    return lines.sub(lambda _: entry, head, count=1) if lines.search(head) else head + entry


# --- The files of the `local` forge: numbered Markdown with front matter, one writer at a time


class _Texts:
    """The lines of all issues' files; a file is read again when it changed, since anybody may edit one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._facts: dict[int, tuple[int, int, int] | None] = {}
        self._lines = LineIndex()
        self._unread: set[int] = set()
        self._has_looked = False

    def holding(self, markers: frozenset[str]) -> list[int]:
        """Numbers of the files that hold one of *markers* as a line of its own, ascending."""
        young = time.time_ns() - SETTLED_NS
        found = dict(self._now())
        for number in self._facts.keys() - found.keys():
            self._lines.drop(number)
        for number, facts in found.items():
            if facts != self._facts.get(number):
                self._lines.put(number, split(read(self._folder / file_name(number))).body)
        # A file so young could still change without a sign of it.
        self._facts = {number: facts if facts[-1] < young else None for number, facts in found.items()}
        self._unread.clear()
        self._has_looked = True
        return self._lines.holding(markers)

    def add(self, number: int, body: str) -> None:
        """Remember a file that we created. What others created since the last look has a number between."""
        if self._has_looked:
            self._unread.update(range(self._lines.highest + 1, number))
        self._put(number, body)

    def holding_before(self, number: int, markers: frozenset[str]) -> list[int]:
        """The same below *number*, one of ours: only numbers that nobody has looked at are read."""
        if not self._has_looked:
            return [found for found in self.holding(markers) if found < number]
        for unread in sorted(self._unread):
            if (path := self._folder / file_name(unread)).exists():
                self._put(unread, split(read(path)).body)
        self._unread.clear()
        return [found for found in self._lines.holding(markers) if found < number]

    def _put(self, number: int, body: str) -> None:
        self._lines.put(number, body)
        self._facts[number] = None

    def _now(self) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """What changes with each file, by its number."""
        for entry in _entries_of(self._folder):
            if (number := number_of(entry.name)) is not None:
                stat = entry.stat()
                yield number, (stat.st_ino, stat.st_size, stat.st_mtime_ns)


class LocalFiles:
    """Reads and writes them; the parts of the local forge share it."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._settings = settings
        self._folder = settings.folder
        self._account = settings.account
        self._texts = _Texts(self._issues)
        self._our_change: int | None = None

    @property
    def _issues(self) -> Path:
        return self._folder / "issues"

    @property
    def _pulls(self) -> Path:
        return self._folder / "pulls"

    def _pull_path(self, number: int) -> Path:
        return self._pulls / file_name(number)

    def _path(self, number: int) -> Path:
        """The file of the issue, or of the pull request, that has the number."""
        pull = self._pull_path(number)
        return pull if pull.exists() else self._issues / file_name(number)

    def _must_exist(self, number: int) -> Path:
        path = self._path(number)
        if not path.exists():
            raise RemoteFailed(f"there is no issue #{number} in {self._issues}")
        return path

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the forge's lock; the kernel lets go of it if we die."""
        try:
            with locked(self._folder / ".lock"):
                yield
        except OSError as error:
            raise RemoteUnavailable(
                f"cannot write the issues in {self._folder}: {error}",
                remedy="check the space and rights of this folder",
            ) from error

    def _next_number(self) -> int:
        """A number that no issue and no pull request ever had.

        The folder is listed only if others changed it: a listing for each of our issues would take their square. Who
        writes a file in the same tick as we do is not noticed; its number is still not given to another.
        """
        there = numbers(self._issues) if _changed_at(self._issues) != self._our_change else ()
        return take_number(self._issues, (*there, *numbers(self._pulls), *self._settings.taken()))

    def _write_new_issue(self, fields: Mapping[str, Any], body: str) -> int:
        """Write an issue under the next number; the caller holds the lock."""
        number = self._next_number()
        self._write_new(self._issues / file_name(number), fields, body)
        self._our_change = _changed_at(self._issues)
        self._texts.add(number, body)
        return number

    def _stamp(self) -> str:
        return utc_text(self._settings.clock.now())

    def _write_new(self, path: Path, fields: Mapping[str, Any], body: str) -> None:
        head = self._settings.write_mapping({**fields, "author": self._account, "created_at": self._stamp()})
        replace(path, FrontMatterFile(head, as_kept(body)).text())

    def _change(self, path: Path, changes: Mapping[str, Any]) -> None:
        """Put the changes of keys, and of the `body`, into the file."""
        document = split(read(path))
        head = amend(
            document.head,
            {key: value for key, value in changes.items() if key != "body"},
            read=lambda text: self._mapping(text, path),
            write=self._settings.write_mapping,
        )
        replace(path, FrontMatterFile(head, as_kept(changes.get("body", document.body))).text())

    def _document(self, path: Path) -> tuple[dict[str, Any], str]:
        document = split(read(path))
        return self._mapping(document.head, path), document.body

    def _mapping(self, text: str, path: Path) -> dict[str, Any]:
        """The YAML mapping in *text*, with absent and empty values left out."""
        try:
            found = self._settings.read_mapping(text, str(path)) if text.strip() else {}
        except LogDamaged as error:
            raise RemoteFailed(error.message, remedy=f"put the YAML of {path.name} right") from error
        return {key: value for key, value in found.items() if value is not None}

    def _entries(self, path: Path) -> dict[str, Any]:
        """The mapping that the whole file is; nothing where there is none."""
        return self._mapping(read(path), path) if path.exists() else {}

    def _author(self, fields: Mapping[str, Any]) -> str:
        """A file without an author counts as written by the user of the program."""
        return str(fields.get("author", self._account))


def file_name(number: int) -> str:
    """`0007.md`."""
    return f"{number:04d}.md"


def number_of(name: str) -> int | None:
    """The number in the name of a file named as we name them; None of any other: editors' backups, notes."""
    return int(name[:-3]) if _NAME.fullmatch(name) else None


def numbers(folder: Path) -> list[int]:
    """Numbers of the files named as we name them, ascending."""
    return sorted(number for entry in _entries_of(folder) if (number := number_of(entry.name)) is not None)


def _entries_of(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _changed_at(folder: Path) -> int | None:
    """When a name in the folder was added or removed last, in nanoseconds; `None` without the folder."""
    return folder.stat().st_mtime_ns if folder.is_dir() else None


def take_number(folder: Path, taken: Iterable[int]) -> int:
    """One more than was ever given in *folder*, and than those *taken*; a crash now only skips it."""
    given = folder / ".last"
    recorded = read(given).strip() if given.exists() else ""
    number = max(int(recorded) if recorded.isdecimal() else 0, *taken, 0) + 1
    while (folder / file_name(number)).exists():
        number += 1
    replace(given, f"{number}\n")
    return number


def state_of(fields: Mapping[str, Any]) -> Literal["open", "closed"]:
    """`closed` if the file says so, however it is spelled; else `open`."""
    return "closed" if str(fields.get("state", "open")).strip().lower() == "closed" else "open"


def title_of(fields: Mapping[str, Any], body: str, otherwise: str) -> str:
    """The title, else the first line of the text."""
    first = next((line.strip("# ") for line in body.split("\n") if line.strip("# ")), "")
    return str(fields.get("title") or first or otherwise)


def modified(path: Path) -> str:
    """When the file was written last, UTC."""
    return utc_text(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def moment_of(text: str) -> datetime:
    """The time in *text*; what is no time counts as newer than any."""
    return moment_in_utc(text) or datetime.max.replace(tzinfo=UTC)


def read(path: Path) -> str:
    """The file's text. Raises RemoteFailed for one that is none, RemoteUnavailable where it cannot be read."""
    try:
        if path.exists() and not path.is_file():  # a pipe would block
            raise RemoteFailed(f"{path} is no file", remedy="move it away, or put a file in its place")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RemoteFailed(f"{path} is not UTF-8 text", remedy="save it as UTF-8") from error
    except OSError as error:
        raise RemoteUnavailable(f"cannot read {path}: {error}") from error


def replace(path: Path, text: str) -> None:
    """Put *text* there durably, by one rename."""
    Disk().put(path, text.encode("utf-8", "replace"))
