"""Leftovers of crashes and caches under `.mino/` (protocol, repair)."""

from __future__ import annotations

import shutil
from pathlib import Path

from irontree.store.files import RESTORED_SUFFIX, disk_errors, is_abandoned
from irontree.store.layout import Layout
from irontree.store.locks import exclusive


class FileUpkeep:
    """The port `Upkeep` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def remove_leftovers(self) -> int:
        """Remove temporaries of processes that are gone, and half-restored streams, which the append lock guards."""
        with exclusive(self._layout.append_lock), disk_errors(self._layout.state):
            found = [path for path in self._layout.state.rglob(".*") if _is_left(path)]
            for path in found:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        return len(found)

    def drop_caches(self) -> None:
        """Remove `.mino/.cache`."""
        shutil.rmtree(self._layout.cache, ignore_errors=True)


def _is_left(path: Path) -> bool:
    return is_abandoned(path.name) or (path.is_dir() and path.name.endswith(RESTORED_SUFFIX))
