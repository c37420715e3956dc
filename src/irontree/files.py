"""File effects: durable and plain replacement, kernel locks, scratch folders, disk errors; does a process live."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self, get_args
from uuid import uuid4

from irontree.errors import EnvironmentRefused


def lives(pid: int) -> bool:
    """Whether there is a process with that id, of any user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# --- For this user alone: what we write may show what an agent, a check or an issue says


SHARED = frozenset({"config.yml", ".gitignore"})
"""Names of the files of ours that belong to the repository: they have the modes that its user gives to files."""


def make_private(folder: Path) -> None:
    """Make *folder* and its missing parents, for this user alone. Raises OSError."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def close_folder(folder: Path) -> None:
    """Let nobody but its owner into an existing folder; an earlier version may have made it by the umask."""
    with suppress(OSError):  # there is none, or it is not ours
        if folder.lstat().st_mode & 0o077 and not folder.is_symlink():
            folder.chmod(0o700)


def close_all(folder: Path) -> None:
    """The same for it and for all files and folders below it; links are not followed."""
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(place, name)
            with suppress(OSError):  # removed meanwhile
                mode = path.lstat().st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & 0o700)


def _new(path: Path) -> Callable[[str, int], int]:
    """What opens the temporary that is to become *path*: with that one's mode if it is shared."""
    mode = 0o600
    if path.name in SHARED:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666
    return lambda name, flags: os.open(name, flags, mode)


# --- Effects on files


if sys.platform == "darwin":

    def _sync(descriptor: int) -> None:
        """Sync to the medium: fsync alone stops at the drive's cache there."""
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
else:
    _sync = os.fsync

# Within one tick of its clock a file system gives two writes the same time; ticks are 1 to 10 ms long.
SETTLED_NS = 100_000_000
TEMPORARY_SUFFIX = ".tmp"
RESTORED_SUFFIX = ".restored"
"""Name part of the hidden folder beside a stream, in which the stream is written as a whole."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Convert an OSError into an error that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        in_the_way = no_folder(path, error)
        remedy = "move it away" if in_the_way else "check free space, permissions and the file system"
        raise EnvironmentRefused(
            in_the_way or f"{path}: {error.strerror or error}", remedy=f"{remedy}, then repeat"
        ) from error


def no_folder(path: Path, error: OSError) -> str:
    """What stands where *path* needs a folder, in words, if that is the *error*; empty otherwise."""
    if error.errno not in (errno.ENOTDIR, errno.EEXIST):
        return ""
    found = (each for each in (*reversed(path.parents), path) if os.path.lexists(each) and not each.is_dir())
    return next((f"{each}: not a folder, and one has to be there" for each in found), "")


def is_leftover(name: str) -> bool:
    """Whether *name* is a dot-temporary of ours, which exists only between two steps or after a kill."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def is_abandoned(name: str) -> bool:
    """Whether *name* is a temporary of a process that is gone."""
    pid = name.removesuffix(TEMPORARY_SUFFIX).rpartition(".")[2].partition("-")[0]
    return is_leftover(name) and pid.isdecimal() and not lives(int(pid))


def _temporary_of(path: Path) -> Path:
    """A temporary beside *path*, unique to the writer: writers of projections and caches hold no lock."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}{TEMPORARY_SUFFIX}")


class Disk:
    """The steps of a durable write, one method each, so that a test can die between any two of them (R2)."""

    def write_durably(self, path: Path, data: bytes) -> None:
        """Replace *path*; after a crash or power loss it holds either all the old or all the new bytes."""
        with disk_errors(path):
            self.put(path, data)

    def put(self, path: Path, data: bytes) -> None:
        """The same, leaving OSError to the caller."""
        self.make_folder(path.parent)
        self.rename(self.write_temporary(path, data), path)
        self.sync_folder(path.parent)

    def make_folder(self, folder: Path) -> None:
        """Create *folder* and its parents for this user alone, each durable before the next is made."""
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)

    def write_temporary(self, path: Path, data: bytes) -> Path:
        """Write *data* to a dot-temporary beside *path*, and sync it."""
        temporary = _temporary_of(path)
        with open(temporary, "wb", opener=_new(path)) as file:
            file.write(data)
            file.flush()
            _sync(file.fileno())
        return temporary

    def rename(self, source: Path, target: Path) -> None:
        """Make *source* visible under its final name, atomically."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Make the directory entries of *folder* survive a power loss."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Replace *path* atomically, but not durably: for files that can be made again from the log."""
    with disk_errors(path):
        make_private(path.parent)
        swap(path, data)


def swap(path: Path, data: bytes) -> None:
    """The same in an existing folder, leaving OSError to the caller."""
    temporary = _temporary_of(path)
    with open(temporary, "wb", opener=_new(path)) as file:
        file.write(data)
    temporary.replace(path)


def overwrite(path: Path, data: bytes) -> bytes:
    """Overwrite *path* in place in one call, padded with line ends to its old size; returns the content now.

    For a small file that changes with every program started: a rename onto an existing name makes ext4 write it
    out at once (auto_da_alloc), a hundred times the cost. The caller keeps other writers away.
    """
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            padded = data.ljust(os.fstat(descriptor).st_size, b"\n")
            os.pwrite(descriptor, padded, 0)
            return padded
        finally:
            os.close(descriptor)


def is_folder(path: Path) -> bool:
    """Whether there is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, as `remove_at`; a missing one is not an error. Raises OSError."""
    with suppress(FileNotFoundError):
        within = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_at(within, path.name)
        finally:
            os.close(within)


def read_bytes(path: Path, limit: int) -> bytes | None:
    """The content, at most one byte more than *limit* (so that the reader can refuse it); `None` without a plain file.

    What stands in its place and is no file, such as a pipe, has no content and does not block.
    """
    with disk_errors(path):
        try:
            with open(path, "rb", buffering=0, opener=_open_at_once) as file:
                return file.read(limit + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        except FileNotFoundError:
            return None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


# --- Files in a folder that others write: never through a link (R4)

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_beneath(root: Path, path: str = "", *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder *path* below *root*, opened step by step and never through a link.

    With *create*, what is missing is made. Raises OSError, for a link or another file in the way too.
    """
    descriptor = os.open(root, _STEP)
    try:
        for name in filter(None, path.split("/")):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            below = open_below(descriptor, name)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def open_below(within: int, name: str) -> int:
    """A descriptor of the folder of that name in the one open as *within*. Raises OSError, for a link too."""
    return os.open(_plain(name), _STEP, dir_fd=within)


def read_beneath(root: Path, path: str, limit: int) -> bytes | None:
    """The content of the regular file *path* below *root*, at most *limit* bytes of it.

    `None` if there is none: for a link in its place or on the way to it, a pipe, a device, or what cannot be read.
    """
    folder, _, name = path.rpartition("/")
    try:
        with folder_beneath(root, folder) as within:
            return _read_regular(os.open(_plain(name), os.O_RDONLY | _AT_ONCE, dir_fd=within), limit)
    except OSError:
        return None


def _read_regular(descriptor: int, limit: int) -> bytes | None:
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def write_beneath(root: Path, path: str, data: bytes) -> None:
    """Write the file *path* below *root* anew, in place of what has its name, a link too; folders are made.

    Raises OSError, for a link or another file in place of a folder too.
    """
    folder, _, name = path.rpartition("/")
    with folder_beneath(root, folder, create=True) as within:
        remove_at(within, name)
        descriptor = os.open(_plain(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AT_ONCE, 0o666, dir_fd=within)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def make_anew(folder: Path) -> None:
    """Make *folder* for this user alone, with nothing in it; what has its name, a link too, gets another.

    The log may have lost its newest events, and name what comes next as it did before. Raises OSError.
    """
    make_private(folder.parent)
    with folder_beneath(folder.parent) as within:
        with suppress(FileNotFoundError):
            os.rename(folder.name, f"{folder.name}-{uuid4().hex}", src_dir_fd=within, dst_dir_fd=within)
        os.mkdir(folder.name, stat.S_IRWXU, dir_fd=within)


def remove_beneath(root: Path, path: str) -> None:
    """Remove what is at *path* below *root*; nothing if there is none, or a link on the way to it. Raises OSError."""
    folder, _, name = path.rpartition("/")
    try:
        with folder_beneath(root, folder) as within:
            remove_at(within, name)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise


def remove_at(within: int, name: str) -> None:
    """Remove what has that name in the folder open as *within*: a file, a link, or a folder with all that is in it.

    A program of others may have made the folder as deep as it can, and taken our own rights in it from us. So folders
    are moved up to the first before they are emptied, and the rights are taken back. Raises OSError.
    """
    try:
        is_folder = stat.S_ISDIR(os.stat(_plain(name), dir_fd=within, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return
    if not is_folder:
        os.unlink(name, dir_fd=within)
        return
    with _entered(within, name) as top:
        waiting = [*_cleared(top, top)]
        while waiting:
            below = waiting.pop()
            with _entered(top, below) as folder:
                waiting += _cleared(folder, top)
            os.rmdir(below, dir_fd=top)
    os.rmdir(name, dir_fd=within)


@contextmanager
def _entered(within: int, name: str) -> Iterator[int]:
    """A descriptor of the folder of that name, in which we may do everything from now on."""
    try:
        descriptor = open_below(within, name)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=within)
        descriptor = open_below(within, name)
    try:
        os.fchmod(descriptor, stat.S_IRWXU)
        yield descriptor
    finally:
        os.close(descriptor)


def _cleared(folder: int, top: int) -> Iterator[str]:
    """Remove the files in *folder*, and move the folders in it to *top*; their names there."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if is_folder:
            moved = uuid4().hex
            with _entered(folder, name):  # a folder is moved by who may write in it
                os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=top)
            yield moved
        else:
            os.unlink(name, dir_fd=folder)


_AT_ONCE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _plain(name: str) -> str:
    if name in ("", ".", ".."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return name


# --- Kernel file locks


def take_lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until its descriptor is closed; `False` if the lock is taken and *wait* is off."""
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, operation if wait else operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of *path* (created if missing), waiting for it; raises OSError."""
    make_private(path.parent)
    with open(path, opener=open_lock) as file:
        take_lock(file.fileno(), wait=True)
        yield


def open_lock(path: str | Path, _flags: int = 0, *, create: bool = True) -> int:
    """Open a lock file, its owner's alone: who can open it can hold it. A pipe does not block. Raises OSError."""
    descriptor = os.open(path, (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY) | os.O_NONBLOCK, 0o600)
    with suppress(PermissionError):  # not its owner, or a file system without modes
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    return descriptor


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock of *path*; a missing file is held by nobody. Raises OSError."""
    try:
        descriptor = open_lock(path, create=False)
    except FileNotFoundError:
        return False
    try:
        return not take_lock(descriptor)
    finally:
        os.close(descriptor)


# --- Scratch folders, in the folder of temporary files or another

Purpose = Literal["serving", "handing", "hooks", "export", "import", "record", "agent", "server", "check"]
_SCRATCH = re.compile(rf"irontree-(?:{'|'.join(get_args(Purpose))})-[a-z0-9_]{{8}}")
ALIVE = ".irontree-alive"
"""The file in a scratch folder that stays locked as long as whoever made it lives."""
_YOUNG_SECONDS = 60
"""A folder so young may not be locked yet."""


class ScratchFolder:
    """A folder of this user alone, named `irontree-PURPOSE-…`, until `remove`; making one removes what kills left.

    Whether its maker lives is asked of the kernel lock and not of a process id: containers that share the folder of
    temporary files do not see each other's processes. Raises OSError.
    """

    def __init__(self, purpose: Purpose, within: Path | None = None) -> None:
        within = within or Path(tempfile.gettempdir())
        remove_abandoned_scratch(within)
        self.path = Path(tempfile.mkdtemp(prefix=f"irontree-{purpose}-", dir=within))
        try:
            self._lock = open_lock(self.path / ALIVE)
        except OSError:
            with suppress(OSError):
                self.path.rmdir()
            raise
        take_lock(self._lock)

    def remove(self) -> None:
        """Remove it with all that is in it, once; what cannot be removed now goes at a later start."""
        if self._lock >= 0:
            with suppress(OSError):
                remove(self.path)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_abandoned_scratch(within: Path) -> int:
    """Remove the scratch folders of this user in *within* whose makers are gone; returns how many."""
    try:
        found = [path for path in within.iterdir() if _SCRATCH.fullmatch(path.name)]
    except OSError:
        return 0
    return sum(map(_remove_if_abandoned, found))


def _remove_if_abandoned(folder: Path) -> bool:
    """Without the file that its maker locks it may be anything of the user's: it stays."""
    with suppress(OSError):
        facts = folder.lstat()
        is_ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
        if is_ours and time.time() - facts.st_mtime > _YOUNG_SECONDS:
            descriptor = open_lock(folder / ALIVE, create=False)
            try:
                if take_lock(descriptor):
                    remove(folder)
                    return True
            finally:
                os.close(descriptor)
    return False
