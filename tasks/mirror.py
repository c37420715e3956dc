"""Shows protocol events to Prefect as well, for its automations and feeds; the log does not depend on it.

Each has an id that follows from its place in the log: one that is shown twice, after a crash or by two processes at
once, is one event to Prefect.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect import get_run_logger
from prefect.events import emit_event
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run
from prefect.settings import get_current_settings

from irontree.app import App
from irontree.domain.timestamps import moment
from irontree.errors import IrontreeError
from irontree.files import replace
from irontree.services.views.history import FeedEntry, event_feed
from irontree.store.layout import Layout
from irontree.tasks.pages import page_of_run

logger = logging.getLogger(__name__)

NEWS: Final = timedelta(days=1)
"""What is older is not told any more: after a move, or a restored log, nobody wants all of it again."""
TELLING: Final = "telling"
TELLING_SECONDS: Final = 10.0


def mirror(app: App) -> int:
    """Emit each event of the log that was not emitted yet; how many. Never fails the work."""
    try:
        return tell_events(app)
    except (IrontreeError, OSError) as error:
        logger.warning("what happened is in the log, but Prefect was not told of all of it: %s", error)
        return 0


def tell_events(app: App) -> int:
    """The same as `mirror`, for who says itself what fails; raises what reading the log raises, and Busy."""
    with telling(app):
        return _mirror(app)


def _mirror(app: App) -> int:
    shown, now = read_told(app), app.clock.now()
    found = list(event_feed(app, shown))
    news = [happening for happening in found if _is_news(happening, now)]
    for happening in news:
        _emit_happening(app, happening)
    if found:
        write_told(app, shown | {happening.place: happening.sequence for happening in found})
    return len(news)


@contextmanager
def telling(app: App) -> Iterator[None]:
    """Be alone with what was told for the block: flows, the janitor and who serves read it, tell, and write it anew.

    Raises Busy if others need long.
    """
    with app.alive(TELLING).hold("tell Prefect", wait_seconds=TELLING_SECONDS):
        yield


def emit(
    event: str,
    *,
    workspace_id: str,
    stream: str = "",
    name: str = "",
    payload: Mapping[str, Any] | None = None,
    key: str = "",
) -> None:
    """Emit `irontree.<event>`; returns at once, and never fails the work.

    Resource ids: `irontree.<workspace id>` for a repository, and behind that `.issue.<N>` or `.loop.<id>`, which is
    the *stream*. *payload* must be JSON values. Two events with the same *key* are one.
    """
    repository = f"irontree.{workspace_id}"
    resource = f"{repository}.{stream}" if stream else repository
    try:
        emit_event(
            f"irontree.{event}",
            resource={"prefect.resource.id": resource, "prefect.resource.name": name or stream or "repository"},
            related=[{"prefect.resource.id": repository, "prefect.resource.role": "repository"}] if stream else [],
            payload=dict(payload or {}),
            id=_id(resource, key) if key else None,
        )
    except PrefectException as error:  # too large; everything else Prefect logs itself
        logger.warning("irontree.%s is in the log, but Prefect did not take it: %s", event, error)


def tell_asked(app: App, title: str, *, key: str, number: int | None = None, loop_id: str | None = None) -> None:
    """Say in this run's log and as `irontree.question_asked` that it is about to ask the question *key*, with its page.

    It is no event of our log: a question follows from that.
    """
    stream = f"issue.{number}" if number else f"loop.{loop_id}" if loop_id else ""
    page = page_of_run(get_current_settings().ui_url, flow_run.get_id())
    get_run_logger().info(
        "%s. This run waits for a person: answer with Resume at %s , or see `irontree inbox`", title, page
    )
    emit_question(app, "question_asked", stream, flow_run.get_name() or "", title=title, url=page, key=key)


def emit_question(app: App, event: str, stream: str, run: str, *, title: str, url: str, key: str) -> None:
    """Emit one of the events about an open question; *run* is the name of the run that asks."""
    what = f"{app.repository.root.name} {run}"
    payload = {"title": title, "what": what, "url": url, "repository": app.repository.root.name}
    emit(event, workspace_id=app.repository.id, stream=stream, name=what, payload=payload, key=key)


def _emit_happening(app: App, happening: FeedEntry) -> None:
    number = happening.payload.get("issue_number")
    emit(
        happening.event,
        workspace_id=app.repository.id,
        stream=happening.stream,
        name=f"#{number}" if number else happening.stream,
        payload={**happening.payload, "repository": app.repository.root.name},
        key=f"{happening.sequence}:{happening.event}:{happening.payload['time']}",
    )


def _is_news(happening: FeedEntry, now: datetime) -> bool:
    at = moment(happening.payload["time"])
    return at is None or now - at < NEWS  # where the log does not say when, it is told


def read_told(app: App) -> dict[str, int]:
    """The newest sequence that was emitted, by place; empty if that is not known."""
    try:
        found = json.loads(Layout(app.repository.root).mirrored.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_told(app: App, told: Mapping[str, int]) -> None:
    """Keep it."""
    replace(Layout(app.repository.root).mirrored, json.dumps(told).encode())


def _id(resource: str, key: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"{resource}/{key}")
