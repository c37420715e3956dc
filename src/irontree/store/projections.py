"""Briefs and reports under `.mino/`: text made from log and plan, never read back as truth (ruling R2)."""

from __future__ import annotations

from pathlib import Path

from irontree.store.files import replace
from irontree.store.layout import Layout


class FileProjections:
    """The port `Projections` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def write_brief(self, issue_number: int, text: str) -> Path:
        """Write `.mino/briefs/issue-{N}.md`."""
        return _written(self._layout.brief(issue_number), text)

    def write_report(self, issue_number: int, text: str) -> Path:
        """Write `.mino/reports/issue-{N}/report.md`."""
        return _written(self._layout.reports(issue_number) / "report.md", text)


def _written(path: Path, text: str) -> Path:
    replace(path, text.encode())
    return path
