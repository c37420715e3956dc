"""What Prefect shows about issues: protocol events, the task tree, each issue's history, verification reports.

The log does not depend on any of it. An event emitted twice has the same id and counts once in Prefect.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect import get_run_logger
from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, aupdate_progress_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactCollectionFilter,
    ArtifactCollectionFilterKey,
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.sorting import ArtifactSort
from prefect.events import emit_event
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run
from prefect.settings import get_current_settings

from irontree.app import App
from irontree.domain.ids import slugify
from irontree.domain.timestamps import moment
from irontree.errors import EnvironmentRefused, IrontreeError
from irontree.files import read_bytes, replace
from irontree.http_client import HttpError
from irontree.services.loops.loop import read_loop
from irontree.services.questions.pages import story_text, tree_text
from irontree.services.record import read_world
from irontree.services.views.history import FeedEntry, event_feed, page_of_issue, page_of_run
from irontree.store.layout import Layout

logger = logging.getLogger(__name__)
Shown = TypeVar("Shown")

_TOLD_BYTES = 1024 * 1024
NEWS: Final = timedelta(days=1)
"""Events older than this are not emitted: after a move or a restored log they would all be repeated."""
TELLING: Final = "telling"
TELLING_SECONDS: Final = 10.0


def mirror(app: App) -> int:
    """Emit each event of the log that was not emitted yet; returns their number. Never fails the work."""
    try:
        return tell_events(app)
    except (IrontreeError, OSError) as error:
        logger.warning("what happened is in the log, but Prefect was not told of all of it: %s", error)
        return 0


def tell_events(app: App) -> int:
    """As `mirror`, for callers that report failures: raises what reading the log raises, and Busy."""
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
    """Lock the record of emitted events for the block: flows, the janitor and servers all update it.

    Raises Busy if others hold it for long.
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
    """Emit `irontree.<event>`; returns at once and never fails the work.

    Resource ids: `irontree.<workspace id>` for a repository, followed by `.issue.<N>` or `.loop.<id>`, the *stream*.
    *payload* must be JSON values. Two events with the same *key* count as one.
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
    """Announce in this run's log and as `irontree.question_asked` that it will ask the question *key*, with its page.

    It is no event of our log, from which questions are derived.
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
    return at is None or now - at < NEWS  # events without a time are emitted


def read_told(app: App) -> dict[str, int]:
    """The newest emitted sequence by place; empty if unknown."""
    try:
        found = json.loads(read_bytes(Layout(app.repository.root).mirrored, _TOLD_BYTES) or b"")
    except (EnvironmentRefused, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_told(app: App, told: Mapping[str, int]) -> None:
    """Store the record of emitted events."""
    replace(Layout(app.repository.root).mirrored, json.dumps(told).encode())


def _id(resource: str, key: str) -> UUID:
    return uuid5(NAMESPACE_URL, f"{resource}/{key}")


# --- Artifacts of a flow run: the tree, the issue's history, verification reports


NOT_SHOWN = (HttpError, PrefectException, OSError)
"""Errors if the server is away or the artifact or the report's file was deleted."""


def key_of(app: App, what: str) -> str:
    """The key of an artifact, also its card's title: `fairshare-f91b3f-issue-3`. Unique across repositories."""
    return f"{slugify(app.repository.root.name)}-{app.repository.id[:6]}-{what}"


def page_of(artifact: UUID | None) -> str:
    """The page of that artifact; empty if it could not be created."""
    return f"{get_current_settings().ui_url}/artifacts/artifact/{artifact}" if artifact else ""


async def publish_report(app: App, task_key: str, *, after: int) -> None:
    """Show the verification report named by the issue's events after the sequence *after*, if any.

    It becomes a new version under the same key. The verdict is already recorded, so failing to show it is no failure.
    """
    state = (await asyncio.to_thread(read_world, app)).states.get(task_key)
    if state is None or not (report := await asyncio.to_thread(_new_report, app, state.issue_number, after)):
        return
    try:
        await acreate_markdown_artifact(
            (app.repository.root / report).read_text(encoding="utf-8"),
            key=key_of(app, f"issue-{state.issue_number}-report"),
            description=f"Verification report of {_issue(app, state.issue_number)}: {state.phase}",
        )
    except NOT_SHOWN as error:
        logger.info("The report %s is written, but Prefect could not show it: %s", report, error)


def _new_report(app: App, issue_number: int, after: int) -> str | None:
    """The path of the newest report written since then, relative to the repository."""
    events = [record.event for record in app.log.read(issue_number).records if record.event.sequence > after]
    named = [str(path) for event in events if (path := getattr(event, "report_path", None))]
    return named[-1] if named else None


def _issue(app: App, number: int) -> str:
    """The issue with its link, as Markdown."""
    address = page_of_issue(app, number)
    return f"[issue #{number}]({address})" if address else f"issue #{number}"


async def tell_story(app: App, issue_number: int, *, question: str = "") -> str:
    """Show the issue's history in this run, as one artifact for the run's whole life; returns its page's address.

    Includes the text of the open *question*, which has more room there than above its form.
    """
    what = f"the story of #{issue_number}"
    report = await _if_possible(_newest(key_of(app, f"issue-{issue_number}-report")), what)
    text = await asyncio.to_thread(story_text, app, issue_number, question=question, report=page_of(report))
    description = "The open question, and what happened" if question else "What happened"
    key = key_of(app, f"issue-{issue_number}")
    return page_of(await _if_possible(_put(key, text, f"{description}: {_issue(app, issue_number)}"), what))


async def show_approval(app: App, name: str, text: str) -> str:
    """Show in this run what is to be approved; returns its page's address."""
    put = _put(key_of(app, f"approval-{slugify(name)}"), text, f"What is to be approved: revision {name}")
    return page_of(await _if_possible(put, f"the approval of {name}"))


async def show_tree(app: App, loop_id: str, runs: Mapping[int, str]) -> str:
    """Show the loop's task tree in this run, linked to the issues' *runs*; returns its page's address."""
    tree, what = await asyncio.to_thread(tree_text, app, loop_id, runs), f"the tree of loop {loop_id}"
    return page_of(await _if_possible(_put(key_of(app, "tree"), tree, what.capitalize()), what))


async def show_loop(app: App, loop_id: str, shown: UUID | None, runs: Mapping[int, str]) -> UUID | None:
    """Show the loop's progress: its tree, and a progress bar, *shown* being the existing one if any.

    An unreachable server does not stop the work.
    """
    tree, what = await show_tree(app, loop_id, runs), f"loop {loop_id}"
    done, total = await asyncio.to_thread(_done, app, loop_id)
    share, text = 100 * done / (total or 1), f"{done} of {total} tasks are done: [the tree]({tree})"
    if shown is not None:
        await _if_possible(aupdate_progress_artifact(shown, progress=share, description=text), what)
        return shown
    bar = acreate_progress_artifact(share, key=key_of(app, f"loop-{loop_id}"), description=text)
    return await _if_possible(bar, what)


def keep_page(client: SyncPrefectClient, key: str, text: str, description: str) -> None:
    """Keep the one page under *key* of that server, outside of any run. Raises what the client raises."""
    found = client.read_latest_artifacts(artifact_filter=ArtifactCollectionFilter(key=_named(key)))
    if not found:
        client.create_artifact(ArtifactCreate(key=key, type="markdown", data=text, description=description))
    elif found[0].data != text:
        client.update_artifact(found[0].latest_id, ArtifactUpdate(data=text, description=description))


def _named(key: str) -> ArtifactCollectionFilterKey:
    return ArtifactCollectionFilterKey(any_=[key])


def _done(app: App, loop_id: str) -> tuple[int, int]:
    world, keys = read_world(app), read_loop(app, loop_id).keys
    return sum(map(world.is_done, keys)), len(keys)


async def _put(key: str, text: str, description: str) -> UUID:
    """Keep one Markdown artifact of this flow run under *key*: created by the first call, updated by later ones."""
    mine = ArtifactFilter(
        key=ArtifactFilterKey(any_=[key]), flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(flow_run.get_id())])
    )
    async with get_client() as client:
        found = await client.read_artifacts(artifact_filter=mine, limit=1)
        if found:
            await client.update_artifact(found[0].id, ArtifactUpdate(data=text, description=description))
            return found[0].id
    return await acreate_markdown_artifact(text, key=key, description=description)


async def _newest(key: str) -> UUID | None:
    """The newest artifact under *key*, of any run."""
    chosen = ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
    async with get_client() as client:
        found = await client.read_artifacts(artifact_filter=chosen, sort=ArtifactSort.CREATED_DESC, limit=1)
    return found[0].id if found else None


async def _if_possible(showing: Awaitable[Shown], what: str) -> Shown | None:
    try:
        return await showing
    except NOT_SHOWN as error:
        logger.info("Prefect could not show %s: %s", what, error)
        return None
