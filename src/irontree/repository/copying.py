"""What is put into a workspace from outside: untracked files of the user's, and documents (R4)."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from irontree.domain.settings import leads_out
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.files import folder_beneath, read_bytes, remove_at, write_beneath
from irontree.ports import Document
from irontree.repository.store import MAKING

_TEXT_BYTES = 64 * 1024
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)


def require_inside(paths: Sequence[str]) -> None:
    """Raise ConfigRefused for a path of `workspace.copy` that leads out of the repository."""
    for path in paths:
        if leads_out(path):
            raise ConfigRefused(f"workspace.copy: {path} leads out of the repository", remedy="name a path inside it")


def copy_files(paths: Sequence[str], source: Path, folder: Path) -> None:
    """Copy untracked files and folders (`workspace.copy`) of the user's into a workspace, never through a link.

    Raises EnvironmentRefused for a path that is not there.
    """
    for path in paths:
        original = source / path
        if not original.exists():
            raise EnvironmentRefused(
                f"workspace.copy names {path}, which is not in {source}",
                remedy="create it, or take it out of workspace.copy in .mino/config.yml",
            )
        try:
            _copy(original, folder, path)
        except OSError as error:
            message = f"workspace.copy: {path} cannot be copied to {folder}: {error}"
            remedy = "see that it can be read, that the disk has room, and that no folder on the way is a link"
            raise EnvironmentRefused(message, remedy=remedy) from error


def texts_of(paths: Sequence[str], source: Path) -> Iterator[str]:
    """The beginnings of the files among *paths*, which are files of settings mostly; folders are not looked into."""
    for path in paths:
        with suppress(EnvironmentRefused):
            yield (read_bytes(source / path, _TEXT_BYTES) or b"").decode("utf-8", "replace")


def _copy(original: Path, folder: Path, path: str) -> None:
    """Copy it beside the workspace first: what is moved in whole cannot be led elsewhere on the way."""
    above, _, name = path.rstrip("/").rpartition("/")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=MAKING) as beside:
        copy = Path(beside) / name
        if original.is_dir():
            shutil.copytree(original, copy, symlinks=True)
        else:
            shutil.copy2(original, copy)
        with folder_beneath(folder, above, create=True) as within:
            remove_at(within, name)
            os.rename(copy, name, dst_dir_fd=within)


def write_inside(folder: Path, document: Document) -> None:
    """Write a file below *folder*, never through a link: an agent may have committed one that leads elsewhere.

    Raises EnvironmentRefused.
    """
    remedy = "name a plain folder in report.docs_path"
    if (folder / document.path).is_symlink():
        raise EnvironmentRefused(f"{document.path} leads through a link", remedy=remedy)
    try:
        write_beneath(folder, document.path, document.text.encode())
    except OSError as error:
        why = "it leads through a link or a file" if error.errno in _NO_FOLDER else error.strerror
        message = f"{document.path} cannot be written in {folder}: {why}"
        raise EnvironmentRefused(message, remedy=remedy) from error
