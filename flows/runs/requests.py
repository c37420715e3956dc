"""Runs in which members of the team are asked: one for each request, one at a time beside the loop and its issue."""

from __future__ import annotations

from irontree.app import App
from irontree.flows.runs.runs import connect, deployment_id, ensure_run, find_runs, issue_tag, tags
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
        runs = find_runs(client, [request_run_key(app, request.key) for request in due]).values()
        run = next((run for run in runs if not run.final), None) or ensure_run(
            client,
            deployment_id(client, "agent_request", app.repository.id),
            key=request_run_key(app, due[0].key),
            parameters={"repository": str(app.repository.root), "key": due[0].key},
            name=due[0].key,
            tags=tags(app, issue_tag(due[0].issue_number)),
        )
    return (f"{run.name} goes on",)
