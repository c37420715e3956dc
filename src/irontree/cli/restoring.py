"""`irontree init --from-backup`: what is lost of the log comes back from `refs/irontree/log` (ruling R13).

It is an option of `init`, the one verb that works where there is no log, no configuration, or no `.mino/` at all.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from irontree.cli.blocks import Block, Cell, Lines
from irontree.clock import SystemClock
from irontree.errors import EnvironmentRefused
from irontree.repository import GitRepository
from irontree.repository.backup import LOG_REF
from irontree.services.consistency.audit import Finding
from irontree.store.files import Disk
from irontree.store.layout import Layout
from irontree.store.locks import FileLock
from irontree.store.restoring import restore

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Restored:
    """The paths that came back, and what the audit says of the whole."""

    paths: tuple[str, ...]
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {"restored": list(self.paths), "findings": [finding.as_json() for finding in self.findings]}

    def blocks(self) -> Iterator[Block]:
        """The same for people."""
        yield Lines(tuple(self._summary()))
        if self.findings:
            yield Lines(tuple(Cell(found.line(), "bad") for found in self.findings), title="The audit is not content")
        else:
            yield Lines((Cell("The audit finds the whole log sound.", "good"),))

    def _summary(self) -> Iterator[Cell | str]:
        yield Cell(f"Restored {len(self.paths)} file(s) from {LOG_REF}" if self.paths else "Nothing was lost", "title")
        yield from self.paths[:_SHOWN]
        if more := len(self.paths[_SHOWN:]):
            yield f"and {more} more"


def require_backup(git: GitRepository, remote: str) -> None:
    """Have the backup here, fetched from *remote* if one is named. Raises EnvironmentRefused, RemoteFailed."""
    if remote:
        git.fetch_backup(remote)
    if git.read_ref(LOG_REF) is None:
        raise EnvironmentRefused(
            f"{git.root} has no {LOG_REF} to restore from",
            remedy="if it was pushed to a remote: `irontree init --from-backup REMOTE`; without that: `irontree init`",
        )


def bring_config_back(git: GitRepository, layout: Layout) -> bool:
    """Take a deleted configuration from the last commit, if it is there: it is no part of the backup; whether it was.

    What is there stays.
    """
    committed = git.committed(layout.shown(layout.config))
    if committed is None or layout.config.exists():
        return False
    Disk().write_durably(layout.config, committed)
    return True


def bring_back(git: GitRepository, layout: Layout) -> tuple[str, ...]:
    """Write every file of the log that was backed up and is gone; the paths. Raises Busy, LogDamaged."""
    with FileLock(layout.driver_lock, SystemClock(), socket.gethostname()).hold("init --from-backup"):
        written = restore(layout.root, git.backed_up(git.lost_files()))
        if layout.events.is_dir():
            git.mark_history()
        git.back_up()
    return written
