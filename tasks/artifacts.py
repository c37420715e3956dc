"""What a flow run shows besides its log: the verification report, and the tree (design, section 6)."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, aupdate_progress_artifact
from prefect.exceptions import PrefectException

from irontree.app import App
from irontree.http_client import HttpError
from irontree.services.loops.loop import read_loop
from irontree.services.world import read_world

logger = logging.getLogger(__name__)

NOT_SHOWN = (HttpError, PrefectException, OSError)
"""The server is away or does not know the artifact any more; the report's file was deleted."""


async def publish_report(app: App, task_key: str, *, after: int) -> None:
    """Show the verification report that the issue's events behind the sequence *after* name, if they do.

    A new version under the same key. The verdict is recorded by then: what cannot be shown is no failure.
    """
    state = (await asyncio.to_thread(read_world, app)).states.get(task_key)
    if state is None or not (report := await asyncio.to_thread(_new_report, app, state.issue_number, after)):
        return
    try:
        await acreate_markdown_artifact(
            (app.repository.root / report).read_text(encoding="utf-8"),
            key=f"irontree-{app.repository.id}-issue-{state.issue_number}-report",
            description=f"Verification report of issue #{state.issue_number}",
        )
    except NOT_SHOWN as error:
        logger.info("The report %s is written, but Prefect could not show it: %s", report, error)


def _new_report(app: App, issue_number: int, after: int) -> str | None:
    """Where the newest report lies that was written since then, relative to the repository."""
    events = [record.event for record in app.log.read(issue_number).records if record.event.sequence > after]
    named = [str(path) for event in events if (path := getattr(event, "report_path", None))]
    return named[-1] if named else None


async def show_progress(app: App, loop_id: str, shown: UUID | None) -> UUID | None:
    """Show how many of the loop's tasks are done, in one artifact per run of the loop: *shown*, once it was made.

    A server that is away at the moment stops no work.
    """
    done, total = await asyncio.to_thread(_done, app, loop_id)
    share, text = 100 * done / (total or 1), f"{done} of {total} tasks are done"
    key = f"irontree-{app.repository.id}-loop-{loop_id}"
    try:
        if shown is None:
            return await acreate_progress_artifact(share, key=key, description=text)
        await aupdate_progress_artifact(shown, progress=share, description=text)
    except NOT_SHOWN as error:
        logger.info("%s, but Prefect could not show it: %s", text, error)
    return shown


def _done(app: App, loop_id: str) -> tuple[int, int]:
    world, keys = read_world(app), read_loop(app, loop_id).keys
    return sum(map(world.is_done, keys)), len(keys)
