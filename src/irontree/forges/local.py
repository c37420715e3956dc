"""The `local` forge: issues, comments and labels as Markdown files under `.mino/forge/`, made to be read and edited.

    labels.yml                       name: {color, description}
    issues/0007.md                   front matter (title, state, labels, author, created_at), then the body
    issues/0007/comments/0001.md     front matter (author, created_at), then the body

Writers hold `flock` on `.lock`, which is never deleted; a file is replaced by one rename, so readers need no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from irontree.errors import LogDamaged, RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.frontmatter import Document, amend, split
from irontree.ports import Comment, Issue, Label


class LocalForge:
    """Implements `Forge` on files. An author other than our account is neither ours nor trusted."""

    name = "local"

    def __init__(self, settings: ForgeSettings) -> None:
        self._folder = settings.folder
        self._account = settings.account
        self._clock = settings.clock
        self._read_mapping = settings.read_mapping
        self._write_mapping = settings.write_mapping
        self._taken = settings.taken

    # --- issues -------------------------------------------------------------------------------------------

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue under a number that no issue ever had."""
        with self._writing():
            number = self._take_number(self._issues, self._taken())
            fields = {"title": _one_line(title), "state": "open", "labels": [*dict.fromkeys(labels)]}
            self._write_new(self._issue_path(number), fields, body)
        return self._issue(number)

    def read_issue(self, number: int) -> Issue | None:
        """The issue; None if there is no such file."""
        return self._issue(number) if self._issue_path(number).exists() else None

    def find_issues(self, marker: str) -> tuple[Issue, ...]:
        """Issues whose body holds *marker* as a line of its own, lowest number first."""
        candidates = (n for n in _numbers(self._issues) if marker in _read(self._issue_path(n)))
        issues = (self._issue(number) for number in candidates)
        return tuple(issue for issue in issues if marker.strip() in map(str.strip, issue.body.split("\n")))

    def open_issues(self, label: str) -> tuple[Issue, ...]:
        """Open issues that carry *label*, lowest number first."""
        issues = (self._issue(number) for number in _numbers(self._issues))
        return tuple(issue for issue in issues if issue.state == "open" and label in issue.labels)

    def edit_issue(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Issue:
        """Change what is given, leave the rest of the file as it stands."""
        changes = {"title": None if title is None else _one_line(title), "state": state}
        with self._writing():
            self._change(number, {key: value for key, value in changes.items() if value is not None}, body)
        return self._issue(number)

    # --- comments -----------------------------------------------------------------------------------------

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""
        self._must_exist(number)
        return tuple(self._comment(number, index) for index in _numbers(self._comments(number)))

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment."""
        with self._writing():
            self._must_exist(number)
            index = self._take_number(self._comments(number))
            self._write_new(self._comments(number) / _file_name(index), {}, body)
        return self._comment(number, index)

    # --- labels -------------------------------------------------------------------------------------------

    def ensure_labels(self, labels: Sequence[Label]) -> None:
        """Append those that `labels.yml` does not name; what is there stays as it is."""
        path = self._folder / "labels.yml"
        with self._writing():
            text = _read(path) if path.exists() else ""
            known = self._mapping(text, path)
            missing = {
                label.name: {"color": label.color, "description": label.description}
                for label in labels
                if label.name not in known
            }
            if missing:
                _replace(path, _closed(text) + self._write_mapping(missing))

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove labels of an issue; nothing is written if nothing changes."""
        with self._writing():
            present = self._issue(number).labels
            wanted = [name for name in dict.fromkeys([*present, *add]) if name not in remove]
            if wanted != [*present]:
                self._change(number, {"labels": wanted}, None)

    # --- files --------------------------------------------------------------------------------------------

    def commit_url(self, sha: str | None) -> None:
        """None: nothing shows commits beside the files."""

    def file_url(self, branch: str, path: str) -> None:
        """None: nothing shows branches beside the files."""

    @property
    def _issues(self) -> Path:
        return self._folder / "issues"

    def _issue_path(self, number: int) -> Path:
        return self._issues / _file_name(number)

    def _comments(self, number: int) -> Path:
        return self._issues / f"{number:04d}" / "comments"

    def _must_exist(self, number: int) -> None:
        if not self._issue_path(number).exists():
            raise RemoteFailed(f"there is no issue #{number} in {self._issues}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the forge's lock; the kernel lets go of it if we die."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise RemoteUnavailable(
                f"cannot write the issues in {self._folder}: {error}",
                remedy="see to the space and rights of this folder",
            ) from error

    @staticmethod
    def _take_number(folder: Path, taken: Iterable[int] = ()) -> int:
        """One more than was ever given in *folder*, deleted files and *taken* included; a crash now only skips it."""
        given = folder / ".last"
        recorded = _read(given).strip() if given.exists() else ""
        number = max(int(recorded) if recorded.isdecimal() else 0, *_numbers(folder), *taken, 0) + 1
        _replace(given, f"{number}\n")
        return number

    def _write_new(self, path: Path, fields: Mapping[str, Any], body: str) -> None:
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        head = self._write_mapping({**fields, "author": self._account, "created_at": stamp})
        _replace(path, Document(head, body).text())

    def _change(self, number: int, changes: Mapping[str, Any], body: str | None) -> None:
        self._must_exist(number)
        path = self._issue_path(number)
        document = split(_read(path))
        head = amend(
            document.head,
            changes,
            read=lambda text: self._mapping(text, path),
            write=self._write_mapping,
        )
        _replace(path, Document(head, document.body if body is None else body).text())

    def _document(self, path: Path) -> tuple[dict[str, Any], str]:
        document = split(_read(path))
        return self._mapping(document.head, path), document.body

    def _mapping(self, text: str, path: Path) -> dict[str, Any]:
        """The YAML mapping in *text*, with absent and empty values left out."""
        try:
            found = self._read_mapping(text, str(path)) if text.strip() else {}
        except LogDamaged as error:
            raise RemoteFailed(error.message, remedy=f"put the YAML at the top of {path.name} right") from error
        return {key: value for key, value in found.items() if value is not None}

    def _issue(self, number: int) -> Issue:
        self._must_exist(number)
        path = self._issue_path(number)
        fields, body = self._document(path)
        author = str(fields.get("author", self._account))
        return Issue(
            number=number,
            title=str(fields.get("title") or _first_line(body) or f"Issue {number}"),
            body=body,
            state="closed" if str(fields.get("state", "open")).strip().lower() == "closed" else "open",
            labels=_names(fields.get("labels", [])),
            author=author,
            trusted=author == self._account,
            url=path.absolute().as_uri(),
        )

    def _comment(self, number: int, index: int) -> Comment:
        path = self._comments(number) / _file_name(index)
        fields, body = self._document(path)
        author = str(fields.get("author", self._account))
        return Comment(
            id=f"{number}-{index}",
            body=body,
            author=author,
            ours=author == self._account,
            created_at=str(fields.get("created_at") or _modified(path)),
            url=path.absolute().as_uri(),
            trusted=author == self._account,
        )


def _file_name(number: int) -> str:
    return f"{number:04d}.md"


def _numbers(folder: Path) -> list[int]:
    """Numbers of the files named as we name them, ascending; editors' backups and notes are passed over."""
    if not folder.is_dir():
        return []
    names = {path.name for path in folder.glob("*.md") if path.stem.isdecimal()}
    return sorted(number for number in {int(name[:-3]) for name in names} if _file_name(number) in names)


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


def _names(labels: object) -> tuple[str, ...]:
    """Labels as a list, or as the one word a person may have typed."""
    return tuple(map(str, labels)) if isinstance(labels, list) else (str(labels),)


def _first_line(body: str) -> str:
    return next((line.strip("# ") for line in body.split("\n") if line.strip("# ")), "")


def _modified(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _closed(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RemoteFailed(f"{path} is not UTF-8 text", remedy="save it as UTF-8") from error
    except OSError as error:
        raise RemoteUnavailable(f"cannot read {path}: {error}") from error


def _replace(path: Path, text: str) -> None:
    """Put *text* there durably by one rename; the caller holds the lock, so one temporary name is enough."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
