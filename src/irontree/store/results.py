"""Check results by commit, `.mino/reports/issue-{N}/{anchor}.yml`: durable before publication."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.store.documents import decode_value, encode_value
from irontree.store.files import Disk, read_bytes
from irontree.store.layout import Layout

if TYPE_CHECKING:
    from irontree.domain.results import CheckReport

# Output is truncated by lines, and a line has no limit.
RESULTS_BYTES = 64 * 1024 * 1024
_ANCHOR = re.compile(r"[0-9a-f]{7,64}|not_applicable")
_REMEDY = "remove the file and verify again"


class FileResultStore:
    """The port `ResultStore` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._disk = disk or Disk()

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        """The stored results at that commit; None if there are none. Raises LogDamaged if they cannot be read."""
        path = self._path(issue_number, anchor)
        data = read_bytes(path, RESULTS_BYTES) if _ANCHOR.fullmatch(anchor) else None
        if data is None:
            return None
        from irontree.domain.results import CheckReport  # noqa: PLC0415  (a listing reads none)

        return decode_value(CheckReport, data, self._layout.shown(path), limit=RESULTS_BYTES, remedy=_REMEDY)

    def save(self, report: CheckReport) -> None:
        """Write the results durably, in place of earlier ones at that commit."""
        self._disk.write_durably(self._path(report.issue_number, report.anchor), encode_value(report))

    def _path(self, issue_number: int, anchor: str) -> Path:
        return self._layout.reports(issue_number) / f"{anchor}.yml"
