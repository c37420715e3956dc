"""Shows protocol events to Prefect as well, for its automations and feeds; the log does not depend on it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from prefect.events import emit_event
from prefect.exceptions import PrefectException

from irontree.app import App

logger = logging.getLogger(__name__)


def emit(
    event: str, *, workspace_id: str, issue_number: int | None = None, payload: Mapping[str, Any] | None = None
) -> None:
    """Emit `irontree.<event>` about the issue, or about the workspace; returns at once, and never fails the work.

    Resource ids: `irontree.<workspace id>` and `irontree.<workspace id>.issue.<N>`; *payload* must be JSON values.
    """
    workspace = f"irontree.{workspace_id}"
    resource = workspace if issue_number is None else f"{workspace}.issue.{issue_number}"
    name = "workspace" if issue_number is None else f"#{issue_number}"
    try:
        emit_event(
            f"irontree.{event}",
            resource={"prefect.resource.id": resource, "prefect.resource.name": name},
            related=[]
            if resource == workspace
            else [{"prefect.resource.id": workspace, "prefect.resource.role": "workspace"}],
            payload=dict(payload or {}),
        )
    except PrefectException as error:  # too large; everything else Prefect logs itself
        logger.warning("irontree.%s is in the log, but Prefect did not take it: %s", event, error)


def emit_events(app: App, issue_number: int, *, after: int) -> None:
    """Emit every event of the issue behind the sequence *after*, as the log has it."""
    for record in app.log.read(issue_number).records:
        event = record.event
        if event.sequence > after:
            payload = {"sequence": event.sequence, "task_key": event.task_key, "stage": event.current_stage}
            emit(event.event, workspace_id=app.repository.id, issue_number=issue_number, payload=payload)
