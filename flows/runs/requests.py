"""Runs in which members of the team are asked, one at a time beside the loop and its issue, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection

from prefect.client.orchestration import SyncPrefectClient

from irontree.app import App
from irontree.domain.agent_requests import AskedAgent, failed
from irontree.domain.plan import canonical_digest
from irontree.domain.timestamps import moment_in_utc
from irontree.flows.runs.runs import RunInfo, connect, deployment_id, ensure_run, find_runs, issue_tag, of_flow, tags
from irontree.services.work.standing import due_requests


def request_run_key(app: App, key: str) -> str:
    """One flow run per workspace and request, for life."""
    return f"{app.repository.id}/request-{key}"


def start_requests(app: App) -> tuple[str, ...]:
    """Ensure that a run works on what the team is asked, the oldest first; returns a line for it.

    There is one at a time: each holds a place of the queue while it waits for the step at work.
    """
    due = due_requests(app) if app.preferences().has_toolchain else ()
    if not due:
        return ()
    with connect() as client:
        runs = find_runs(client, [request_run_key(app, request.key) for request in due])
        wanted = [request for request in due if not _gave_up(app, request, runs.get(request_run_key(app, request.key)))]
        run = next((run for run in runs.values() if not run.final), None)
        if run is None and wanted:
            run = _start(app, client, wanted[0])
    return (f"{run.name} goes on",) if run else ()


def ask_for_approval(app: App, documents: Collection[str]) -> None:
    """Ensure that each document with the team's claims was put up for approval as it is, once.

    A form that is open shows what a later round claims by itself (`wake_overtaken`).
    """
    with connect() as client:
        asking = {
            run.parameters.get("document") for run in of_flow(client, app.repository.id, "intake") if not run.final
        }
        for document in sorted(set(documents) - asking):
            digest = canonical_digest((app.repository.root / document).read_text(encoding="utf-8"))
            key = f"{app.repository.id}/{document}/{digest}"
            if not find_runs(client, [key]):
                parameters = {"repository": str(app.repository.root), "document": document}
                intake = deployment_id(client, "intake", app.repository.id)
                ensure_run(client, intake, key=key, parameters=parameters, tags=tags(app))


def _gave_up(app: App, request: AskedAgent, run: RunInfo | None) -> bool:
    """Whether somebody cancelled its run in Prefect, and nobody had it asked again since: it has failed then."""
    if run is None or run.state != "CANCELLED" or request.answer is not None:
        return False
    again_at = moment_in_utc(request.not_before)
    if again_at and run.since and again_at >= run.since:
        return False
    app.agent_requests.save(failed(request, "its run was cancelled in Prefect"))
    return True


def _start(app: App, client: SyncPrefectClient, request: AskedAgent) -> RunInfo:
    return ensure_run(
        client,
        deployment_id(client, "agent_request", app.repository.id),
        key=request_run_key(app, request.key),
        parameters={"repository": str(app.repository.root), "key": request.key},
        name=request.key,
        tags=tags(app, issue_tag(request.issue_number)),
    )
