"""The five deployments of a repository, for whoever serves it from its own folder (design, section 6)."""

from __future__ import annotations

from irontree.app import App
from irontree.flows.local.serving import Served

SCHEDULES = {"reconcile": ("0 3 * * *", "nightly"), "janitor": ("*/5 * * * *", "five-minutes")}
"""Cron and slug: every night, and every five minutes; the same as in prefect.yaml."""
FLOWS = ("intake", "issue", "loop", "reconcile", "janitor")


def deployments_of(app: App) -> tuple[Served, ...]:
    """Named after the workspace id, with the repository as their parameter."""
    return tuple(
        Served(
            entrypoint=f"irontree.flows.{flow}.{flow}",
            name=app.repository.id,
            parameters={"repository": str(app.repository.root)},
            cron=SCHEDULES[flow][0] if flow in SCHEDULES else None,
            slug=SCHEDULES[flow][1] if flow in SCHEDULES else None,
            tags=("irontree", f"repository:{app.repository.root.name}"),
        )
        for flow in FLOWS
    )
