"""Where what agents said is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.spending import Spending, taken
from irontree.domain.state import TaskState


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt, keyed by the sequence of its run_started."""
    folder = app.repository.root / ".mino" / "reports" / f"issue-{state.issue_number}"
    return folder / state.renewed_from / f"attempt-{state.run_sequence:04d}"


RESULT_FILE: Final = "result.json"
_STAMP: Final = "%Y%m%dT%H%M%SZ"


def plans_folder(app: App) -> Path:
    """Where the transcripts of planning are, each in a folder named by when it began (UTC)."""
    return app.repository.root / ".mino" / "reports" / "plans"


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


def planning(app: App) -> Iterator[Spending]:
    """What planners took: no issue is there yet that could tell. A round without a result was cut off: unknown."""
    for folder in sorted(plans_folder(app).glob("*/*")):
        began = _began(folder.parent.name)
        if folder.is_dir() and began:
            result = result_in(folder)
            took = taken(usage_in(result), result.get("seconds"))
            yield Spending(0, f"planning at {began}", began, 0, took["money"], took["tokens"], took["time"])


def usage_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """How the agent ended and what it took, as `meta.agent` has them; only what is known."""
    usage = result.get("usage")
    found = {"ended": result.get("ended"), **(usage if isinstance(usage, dict) else {})}
    return {key: value for key, value in found.items() if value is not None}


def _began(name: str) -> str | None:
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).isoformat()
    except ValueError:
        return None
