"""Where what agents said is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.ids import attempt_folder, parse_issue
from irontree.domain.spending import Spending, review_spending, taken
from irontree.domain.state import TaskState


def transcript_folder(app: App, state: TaskState) -> Path:
    """The folder of this attempt."""
    return _reports(app) / attempt_folder(state.issue_number, state.renewed_from, state.run_sequence)


def review_folder(app: App, state: TaskState, reviewer: str) -> Path:
    """The folder of a review that begins now, named by when (UTC), so that it writes over none before; a round each."""
    return transcript_folder(app, state) / f"review-{reviewer}-{app.clock.now().strftime(_STAMP)}"


def _reports(app: App) -> Path:
    return app.repository.root / ".mino" / "reports"


RESULT_FILE: Final = "result.json"
_STAMP: Final = "%Y%m%dT%H%M%SZ"


def plans_folder(app: App) -> Path:
    """Where the transcripts of planning are, each in a folder named by when it began (UTC)."""
    return _reports(app) / "plans"


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


def reviewing(app: App) -> Iterator[Spending]:
    """What reviewers took, round by round: one that was stopped or killed is in no event. Without a result: unknown."""
    for folder in sorted(_reports(app).glob("issue-*/**/attempt-*/review-*/*")):
        review, _, stamp = folder.parent.name.rpartition("-")
        place = folder.relative_to(_reports(app)).parts
        number, began = parse_issue(place[0]), _began(stamp)
        if folder.is_dir() and number and began:
            result = result_in(folder)
            took = taken(usage_in(result), result.get("seconds"))
            yield review_spending(number, review.removeprefix("review-"), began, "/".join(place[:-2]), took)


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
