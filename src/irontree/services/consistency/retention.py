"""What may go in time: what agents said on their way to work that is done. Evidence, results and refs stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.moments import moment
from irontree.services.projections.history import time_of
from irontree.services.world import read_world

LONG: Final = ("output.log", "prompt.md")
"""Of an attempt's folder; its `result.json` says how it ended and what it took, and is small."""


def drop_old_transcripts(app: App) -> tuple[str, ...]:
    """Remove the transcripts of issues that were done so many days ago (`automations.keep_transcripts_days`).

    The files, relative to the repository; none while the setting is 0, or where the log does not say when.
    """
    days = app.preferences().automations.keep_transcripts_days
    if not days:
        return ()
    before = app.clock.now() - timedelta(days=days)
    files = [file for number in _done_before(app, before) for file in _transcripts(app, number)]
    for file in files:
        file.unlink(missing_ok=True)
    return tuple(str(file.relative_to(app.repository.root)) for file in files)


def _done_before(app: App, limit: datetime) -> Iterator[int]:
    for number, replay in read_world(app).replays.items():
        if replay.state and replay.state.done:
            done_at = moment(time_of(app.log.read(number).records[-1]))
            if done_at and done_at < limit:
                yield number


def _transcripts(app: App, number: int) -> Iterator[Path]:
    for folder in (app.repository.root / ".mino" / "reports" / f"issue-{number}").glob("**/attempt-*"):
        yield from (folder / name for name in LONG if (folder / name).is_file())
