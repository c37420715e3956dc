"""Briefs and reports under `.mino/`: text made from log and plan, never read back as truth (ruling R2)."""

from __future__ import annotations

from pathlib import Path

from irontree.store.files import read_bytes, replace
from irontree.store.layout import Layout

TEXT_BYTES = 4 * 1024 * 1024


class FileProjections:
    """The port `Projections` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def write_brief(self, issue_number: int, text: str) -> Path:
        """Write `.mino/briefs/issue-{N}.md`."""
        return _written(self._layout.brief(issue_number), text)

    def read_brief(self, issue_number: int) -> str | None:
        """The brief as it is; None without one."""
        return _text(self._layout.brief(issue_number))

    def write_report(self, issue_number: int, text: str) -> Path:
        """Write `.mino/reports/issue-{N}/report.md`."""
        return _written(self._report(issue_number), text)

    def read_report(self, issue_number: int) -> str | None:
        """The report as it is; None without one."""
        return _text(self._report(issue_number))

    def report_path(self, issue_number: int) -> str:
        """Where that is, as `.mino/…`."""
        return self._layout.shown(self._report(issue_number))

    def _report(self, issue_number: int) -> Path:
        return self._layout.reports(issue_number) / "report.md"


def _text(path: Path) -> str | None:
    data = read_bytes(path, TEXT_BYTES)
    return None if data is None else data.decode("utf-8", "replace")


def _written(path: Path, text: str) -> Path:
    replace(path, text.encode())
    return path
