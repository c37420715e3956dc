"""Where what agents said is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.ids import attempt_folder
from irontree.domain.state import TaskState


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt."""
    return reports(app) / attempt_folder(state.issue_number, state.renewed_from, state.run_sequence)


def attempts_folder(app: App, state: TaskState) -> Path:
    """Where the folders of all attempts of the stream in force are; an archived stream's are elsewhere."""
    return transcript_folder(app, state).parent


def review_folder(app: App, state: TaskState, reviewer: str) -> Path:
    """The folder of a review that begins now, named by when (UTC), so that it writes over none before; a round each."""
    return transcript_folder(app, state) / f"review-{reviewer}-{app.clock.now().strftime(_STAMP)}"


def reports(app: App) -> Path:
    """Where all of them are, below a folder for each issue."""
    return app.repository.root / ".mino" / "reports"


RESULT_FILE: Final = "result.json"
_STAMP: Final = "%Y%m%dT%H%M%SZ"


def plans_folder(app: App) -> Path:
    """Where the transcripts of planning are, each in a folder named by when it began (UTC)."""
    return reports(app) / "plans"


def planning_folder(app: App) -> Path:
    """The folder of a planning that begins now."""
    return plans_folder(app) / app.clock.now().strftime(_STAMP)


def result_in(folder: Path) -> Mapping[str, Any]:
    """What an agent's adapter kept of its result there; empty where it did not come to that, or cannot be read."""
    try:
        found = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def began(name: str) -> str | None:
    """When that began (ISO 8601), by the time in the name of a folder; None where there is none."""
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).isoformat()
    except ValueError:
        return None
