"""`irontree.issue_closed`: somebody closed an issue by a member of the team; told once, to those who are notified."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from irontree.app import App
from irontree.domain.timestamps import utc_text
from irontree.errors import IrontreeError
from irontree.services.toolchain.closed import Closing, look_for_closings
from irontree.tasks.artifacts import emit, read_told, telling, write_told

CLOSED: Final = "closed."
LOOKED: Final = "looked.closed"
_DAY: Final = 24 * 3600


def emit_closing(app: App, closing: Closing, now: int) -> None:
    """Emit the event; *now* makes another closing of the issue a separate one."""
    payload = {
        "issue_number": closing.number,
        "title": closing.title,
        "closer": closing.closer,
        "last_comment": closing.last_comment,
        "url": closing.url,
    }
    stream, key = f"issue.{closing.number}", f"closed:{closing.number}:{now}"
    emit("issue_closed", workspace_id=app.repository.id, stream=stream, name=closing.title, payload=payload, key=key)


def tell_closings(app: App, tell: Callable[[App, Closing, int], None] = emit_closing) -> tuple[int, ...]:
    """Emit the event for each closing that was not told yet; returns the issues' numbers.

    Nothing without a toolchain and somebody who is notified. Each look begins a day before the last one, at midnight,
    so that its answer can be kept. Raises Busy.
    """
    if not (app.preferences().has_toolchain and app.preferences().automations.notify):
        return ()
    with telling(app):
        told, now = read_told(app), int(app.clock.now().timestamp())
        marked = {int(key.removeprefix(CLOSED)) for key in told if key.startswith(CLOSED)}
        since = datetime.fromtimestamp(_midnight(told.get(LOOKED, now)) - _DAY, UTC)
        try:
            found = look_for_closings(app, utc_text(since), marked)
        except IrontreeError as error:
            app.progress.note(f"the issues that were closed could not be read: {error.message}")
            return ()
        for closing in found.fresh:
            tell(app, closing, now)
        news = told | {f"{CLOSED}{closing.number}": 1 for closing in found.fresh} | {LOOKED: _midnight(now)}
        news = {key: at for key, at in news.items() if key not in {f"{CLOSED}{number}" for number in found.open}}
        if news != told:
            write_told(app, news)
    return tuple(closing.number for closing in found.fresh)


def _midnight(moment: int) -> int:
    return moment - moment % _DAY
