"""The five deployments of a repository, for whoever serves it from its own folder (design, section 6)."""

from __future__ import annotations

from irontree.app import App
from irontree.flows.serving import Served

SCHEDULES = {"reconcile": "0 3 * * *", "janitor": "*/5 * * * *"}
"""Every night, and every five minutes; the same as in prefect.yaml."""
FLOWS = ("intake", "issue", "loop", "reconcile", "janitor")


def deployments_of(app: App) -> tuple[Served, ...]:
    """Named after the workspace id, with the repository as their parameter."""
    return tuple(
        Served(
            entrypoint=f"irontree.flows.{flow}.{flow}",
            name=app.repository.id,
            parameters={"repository": str(app.repository.root)},
            cron=SCHEDULES.get(flow),
            tags=("irontree", f"repository:{app.repository.root.name}"),
        )
        for flow in FLOWS
    )
