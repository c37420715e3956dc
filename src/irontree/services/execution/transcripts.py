"""Where what agents said is kept."""

from __future__ import annotations

from pathlib import Path

from irontree.app import App
from irontree.domain.state import TaskState


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt, keyed by the sequence of its run_started."""
    folder = app.repository.root / ".mino" / "reports" / f"issue-{state.issue_number}"
    return folder / state.renewed_from / f"attempt-{state.run_sequence:04d}"
