"""Where what agents said is kept, and reading what they left there."""

from __future__ import annotations

from pathlib import Path

from irontree.app import App
from irontree.domain.state import TaskState
from irontree.ports import AgentResult


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt, keyed by the sequence of its run_started."""
    folder = app.repository.root / ".mino" / "reports" / f"issue-{state.issue_number}"
    return folder / state.renewed_from / f"attempt-{state.run_sequence:04d}"


def read_answer(path: Path, limit: int) -> bytes | None:
    """What an agent wrote there: a plain file of at most *limit* bytes; None for a link, a pipe, or too much."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > limit:
            return None
        return path.read_bytes()
    except OSError:
        return None


def how_it_ended(result: AgentResult) -> str:
    """In a few words, where it left no answer."""
    return f"exit code {result.exit_code}" if result.ended == "exited" else result.ended.replace("_", " ")
