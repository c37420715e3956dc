"""The state folder of a home: the private store that commits are made in, and the history that agents may read (R4).

Neither is in a workspace, and no program of an agent, a check or a hook is given the store (decision 0022).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from uuid import uuid4

from irontree.domain.plan import WorkspacePolicy
from irontree.errors import GitFailed
from irontree.files import close_folder, make_private, remove, remove_abandoned_scratch
from irontree.repository.git import DURABLY, NO_HOOKS, Git, require_new_git, store_environment
from irontree.repository.locks import PrivateLocks
from irontree.repository.settings import Settings

MAKING = ".making-"
"""Prefix of a folder that is being made; after a kill it is garbage."""
_GONE = ".gone-"
"""Prefix of a folder that is being removed."""
_removing = list[Thread]()
_TRAILERS = "--format=%H%n%(trailers:only,unfold)%x00"
_LOOSE, _PACKS = 27, 50
"""Loose objects in one of 256 folders, and packs, from which on git tidies up; ours is told not to."""
_TEMPORARY = ("tmp_", ".tmp-", "incoming-")


@dataclass(frozen=True, slots=True)
class PrivateStore:
    """The store in the state folder *folder*; *source* is git in the user's main worktree, *common_dir* its `.git`."""

    folder: Path
    source: Git
    common_dir: Path
    environment: Mapping[str, str] = field(repr=False)
    """The caller's."""

    @property
    def git_dir(self) -> Path:
        """The bare repository."""
        return self.folder / "store.git"

    @property
    def history(self) -> History:
        """What agents may read of the user's repository."""
        return History(self.folder / "history.git", self.source)

    @property
    def _config(self) -> Path:
        """Takes the place of the user's own settings."""
        return self.folder / "gitconfig"

    def index(self, name: str) -> Path:
        """The index of the workspace of that name."""
        return self.folder / f"{name}.index"

    def git(self, work_tree: Path, index: str) -> Git:
        """Git on the store, with that work tree and the index of that name; it reads nothing else of a workspace.

        It runs in the store, and is told everything by variables that win over what a work tree says.
        """
        variables = {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(self.index(index)),
            "GIT_CONFIG_GLOBAL": str(self._config),
        }
        environment = store_environment(self.environment) | variables
        return Git(self.git_dir, self.source.children, environment, PrivateLocks(self.folder))

    def made_ref(self, work_tree: Path) -> str:
        """The ref at the commit that was made last of that work tree, since it was prepared."""
        return f"refs/made/{work_tree.name}"

    def made(self, work_tree: Path, base: str) -> Iterator[tuple[str, frozenset[str]]]:
        """That commit on *base*, if there is one, with the values of its `Irontree-…` trailers."""
        if not self.git_dir.is_dir():
            return
        since = f"{base}..{self.made_ref(work_tree)}"
        log = str(self.git(work_tree, work_tree.name).repo.git.log(_TRAILERS, since, with_exceptions=False))
        for entry in filter(str.strip, log.split("\0")):
            sha, *trailers = entry.strip().splitlines()
            ours = (line.partition(":") for line in trailers if line.lower().startswith("irontree-"))
            yield sha, frozenset(value.strip() for _, _, value in ours)

    def restore(self, settings: Settings, policy: WorkspacePolicy) -> None:
        """Make what is missing, and write what has changed in the user's repository since.

        Raises EnvironmentRefused for a git that is too old.
        """
        require_new_git(self.environment)
        make_private(self.folder)
        close_folder(self.folder)
        if not (self.git_dir / "HEAD").is_file():
            self.renew()
        PrivateLocks(self.folder).clear()
        self._config.write_text(settings.for_store(self.common_dir, policy.filters), encoding="utf-8")
        info = self.git_dir / "info"
        info.mkdir(exist_ok=True)
        (info / "exclude").write_bytes(
            bytes_of(self.common_dir / "info" / "exclude") + b"\n" + patterns(policy.copy_files)
        )
        (info / "attributes").write_bytes(bytes_of(self.common_dir / "info" / "attributes"))
        (self.git_dir / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (self.git_dir / "objects" / "info" / "alternates").write_bytes(alternate(self.common_dir / "objects"))
        copy_or_remove(self.common_dir / "shallow", self.git_dir / "shallow")

    def tidy(self) -> None:
        """Make the store anew if it is full of objects that nobody needs: what is kept is in the user's repository."""
        if _is_full(self.git_dir):
            self.renew()

    def renew(self) -> None:
        """Make the store anew, empty but for what it borrows; one that is half made is never visible."""
        with _made_bare(self.folder, self.source) as made:
            remove(self.git_dir)
            made.rename(self.git_dir)

    def remove_leftovers(self) -> int:
        """Remove the locks and temporaries of a killed git; returns how many. Nobody may be at work here."""
        locks = PrivateLocks(self.folder).clear()
        found = tuple(path for git_dir in self.folder.glob("*.git") for path in _temporaries(git_dir))
        for path in found:
            remove(path)
        return len(locks) + len(found) + remove_half_made(self.folder)


@dataclass(frozen=True, slots=True)
class History:
    """A bare repository with objects of its own, of the bases of attempts and the tags in their history.

    It is lent to programs that nobody trusts, for reading. Nothing of ours reads it for anything that is believed.
    """

    folder: Path
    source: Git

    @property
    def objects(self) -> Path:
        """Its object store."""
        return self.folder / "objects"

    @property
    def lent(self) -> tuple[Path, ...]:
        """What programs in a container have to read to use git in a workspace."""
        return (self.objects,) if self.objects.is_dir() else ()

    @property
    def tags(self) -> Path:
        """Its tags, in the form of git's `packed-refs`."""
        return self.folder / "tags"

    def bases(self) -> tuple[str, ...]:
        """The commits whose history it holds."""
        with suppress(FileNotFoundError):
            return tuple(sorted(path.name for path in (self.folder / "refs" / "bases").iterdir()))
        return ()

    def hold(self, base: str) -> None:
        """Fetch *base* from the user's repository, unless it is there; made anew if it is damaged or full."""
        if base in self.bases():
            if self._is_whole(base):
                return None
        elif (self.folder / "HEAD").is_file() and not _is_full(self.folder):
            with suppress(GitFailed):
                return self._fetch(base)
        with _made_bare(self.folder.parent, self.source) as made:
            remove(self.folder)
            made.rename(self.folder)
        return self._fetch(base)

    def _is_whole(self, base: str) -> bool:
        """Whether the files of *base* are there. To read all of its history takes too long for each attempt."""
        words = ("rev-list", "--objects", "--quiet", "--no-walk", base)
        return _git_at(self.folder, self.source).ask(*words).exit_code == 0

    def _fetch(self, base: str) -> None:
        """Fetch *base*, and by git's own rule the tags that point into its history."""
        git = _git_at(self.folder, self.source)
        words = ("--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow")
        git.change(*NO_HOOKS, *DURABLY, "fetch", *words, str(self.source.folder), f"{base}:refs/bases/{base}")
        listed = git.read("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
        self.tags.write_bytes(b"# pack-refs with: sorted \n" + listed)


@contextmanager
def _made_bare(within: Path, source: Git) -> Iterator[Path]:
    """A new bare repository that stores objects as *source* does, in a folder of its own in *within*; to be moved."""
    with tempfile.TemporaryDirectory(dir=within, prefix=MAKING) as folder:
        made = Path(folder) / "made.git"
        made.mkdir()
        ids = source.repo.settings.get("extensions.objectformat") or "sha1"
        words = ("init", "--quiet", "--bare", "--template=", f"--object-format={ids}")
        _git_at(made, source).change(*NO_HOOKS, *words)
        yield made


def _is_full(git_dir: Path) -> bool:
    objects = git_dir / "objects"
    return len([*objects.glob("17/*")]) >= _LOOSE or len([*objects.glob("pack/*.pack")]) >= _PACKS


def _git_at(git_dir: Path, source: Git) -> Git:
    """Git on a bare repository of ours with the user's settings, which say whose repositories are safe to read."""
    environment = {**source.environment, "GIT_DIR": str(git_dir), "GIT_DEFAULT_REF_FORMAT": "files"}
    return replace(source.at(git_dir), environment=environment, locks=PrivateLocks(git_dir.parent))


def alternate(objects: Path) -> bytes:
    """The line of `objects/info/alternates` that names that folder, whatever letters are in its name."""
    if "\n" not in str(objects):
        return os.fsencode(objects) + b"\n"
    escaped = os.fsencode(objects).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"\n'


def remove_half_made(folder: Path) -> int:
    """Remove what a kill left half made in *folder*, and what it had lent to an agent; returns how many."""
    found = (*folder.glob(f"{MAKING}*"),)
    for half_made in found:
        remove(half_made)
    return len(found) + remove_abandoned_scratch(folder)


def discard(path: Path) -> None:
    """Have nothing at *path* at once. What was there, and what a kill left of it, is removed while others go on.

    A large folder takes seconds, as the disk has them. One removal goes on at a time; a program ends after it.
    """
    if os.path.lexists(path):
        path.rename(path.with_name(f"{_GONE}{uuid4().hex}"))
    if left := (*path.parent.glob(f"{_GONE}*"),):
        _finish_removing()
        _removing.append(Thread(target=_remove_all, args=(left,), name="remove"))
        _removing[-1].start()


def _finish_removing() -> None:
    while _removing:
        _removing.pop().join()


def _remove_all(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # another program of ours may remove it too; what is left goes next time
            remove(path)


def patterns(paths: Sequence[str]) -> bytes:
    """Lines for git's `info/exclude` that match exactly these paths."""
    return "".join(f"/{''.join(f'{_escape(letter)}' for letter in path)}\n" for path in paths).encode()


def _escape(letter: str) -> str:
    return f"\\{letter}" if letter in "\\*?[" else letter


def copy_or_remove(original: Path, copy: Path) -> None:
    """Make *copy* like the file *original*, which may be missing."""
    if original.is_file():
        shutil.copyfile(original, copy)
    else:
        copy.unlink(missing_ok=True)


def bytes_of(path: Path) -> bytes:
    """The content of a file of the user's or of ours; nothing if there is none."""
    return path.read_bytes() if path.is_file() else b""


def _temporaries(git_dir: Path) -> Iterator[Path]:
    """What git writes before it renames it: objects, packs, folders of objects that arrive, packed references."""
    for folder, folders, files in os.walk(git_dir / "objects"):  # never follows a link
        yield from (Path(folder, name) for name in (*folders, *files) if name.startswith(_TEMPORARY))
        folders[:] = [name for name in folders if not name.startswith(_TEMPORARY)]
    if (git_dir / "packed-refs.new").is_file():
        yield git_dir / "packed-refs.new"
