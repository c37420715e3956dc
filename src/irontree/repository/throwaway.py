"""The throw-away `.git` of a workspace: for the convenience of who works there, and read by nobody else (R4).

It is made anew whenever the workspace is prepared, and moved in whole. Git is not asked for it: it is a few files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from irontree.files import remove
from irontree.repository.settings import Settings
from irontree.repository.store import MAKING, PrivateStore, alternate, bytes_of, copy_or_remove

_ENTRY = "{0} {1} irontree <> 1 +0000\tcheckout: moving from nothing to {1}\n"
"""From it `git status` knows at which commit HEAD is detached."""


@dataclass(frozen=True, slots=True)
class ThrowAwayGit:
    """What is put into the folder *workspace*; its index is a copy of that of the store, named *name*."""

    store: PrivateStore
    workspace: Path
    name: str

    def put(self, head: str, settings: Settings, commits: Iterable[str], tree: str) -> None:
        """Put one there with HEAD detached at *head*; what the history lacks of *commits* and *tree* is in it.

        Raises GitFailed, OSError.
        """
        history = self.store.history
        lacking = {*commits, tree}.difference(history.bases())
        with tempfile.TemporaryDirectory(dir=self.workspace.parent, prefix=MAKING) as folder:
            made = Path(folder) / ".git"
            for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"):
                (made / name).mkdir(parents=True)
            (made / "HEAD").write_text(f"{head}\n", encoding="ascii")
            (made / "logs").mkdir()
            (made / "logs" / "HEAD").write_text(_ENTRY.format("0" * len(head), head), encoding="ascii")
            (made / "config").write_text(self._own_config() + settings.for_workspace(), encoding="utf-8")
            (made / "objects" / "info" / "alternates").write_bytes(alternate(history.objects))
            (made / "info" / "exclude").write_bytes(self._excluded(settings))
            (made / "info" / "attributes").write_bytes(bytes_of(self.store.git_dir / "info" / "attributes"))
            (made / "packed-refs").write_bytes(bytes_of(history.tags))
            copy_or_remove(history.folder / "shallow", made / "shallow")
            shutil.copyfile(self.store.index(self.name), made / "index")
            self._pack(lacking, made / "objects" / "pack")
            remove(self.workspace / ".git")
            made.rename(self.workspace / ".git")

    def _own_config(self) -> str:
        """What git found out about the file system when it made the store, for a repository with a work tree."""
        return (self.store.git_dir / "config").read_text(encoding="utf-8").replace("bare = true", "bare = false")

    def _excluded(self, settings: Settings) -> bytes:
        """What the user ignores for himself, wherever he says so: the workspace need not be able to read that."""
        users = settings.get("core.excludesfile")
        return (
            (bytes_of(Path(users).expanduser()) if users else b"")
            + b"\n"
            + bytes_of(self.store.git_dir / "info" / "exclude")
        )

    def _pack(self, objects: Collection[str], folder: Path) -> None:
        """Write these objects into a pack of their own in *folder*, without what the history has."""
        if objects:
            lines = "".join(f"{line}\n" for line in (*objects, "--not", *self.store.history.bases()))
            words = ("pack-objects", "--revs", "--quiet", "--non-empty", str(folder / "pack"))
            self.store.git(self.workspace, self.name).change(*words, stdin=lines.encode())
