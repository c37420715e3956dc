"""The five deployments of a repository, for whoever serves it from its own folder (protocol, Runs)."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.automation_settings import Automations
from irontree.flows.lifecycle.names import tags
from irontree.flows.local.serving import Served

SCHEDULES = {"reconcile": ("0 3 * * *", "nightly"), "janitor": ("*/5 * * * *", "five-minutes")}
"""Cron and slug: every night, and every five minutes; the same as in prefect.yaml."""
POOL = "irontree"
"""The work pool; the queue of a repository is called like its deployments, by the workspace id (ruling R21)."""
FLOWS = {
    "intake": "Show what a requirement document would become, and wait for its approval.",
    "issue": "Bring one issue as far as its log allows; the run that waits when a decision is due.",
    "loop": "Work through the tasks of a loop, one issue's run after the other.",
    "reconcile": "Compare the log with itself and with the forge, every night.",
    "janitor": "Take up what a crash left, every five minutes.",
}
"""With what the UI says of each, behind the folder of the repository; the same as in prefect.yaml."""


NIGHTLY = ("30 1 * * *", "nightly")
"""Cron and slug of `intake`, where `automations.nightly` says what to go on with."""
SLUGS = frozenset(slug for _, slug in (*SCHEDULES.values(), NIGHTLY))
"""Of the schedules that are ours: a person may have made others."""


def nightly_parameters(wanted: Automations) -> dict[str, str]:
    """What `intake` gets every night; nothing where nothing is wanted at night."""
    return {"document": wanted.nightly} if wanted.nightly else {}


def deployments_of(app: App) -> tuple[Served, ...]:
    """Named after the workspace id, with the repository as their parameter."""
    nightly = nightly_parameters(app.preferences().automations)
    schedules = SCHEDULES | ({"intake": NIGHTLY} if nightly else {})
    return tuple(
        Served(
            entrypoint=f"irontree.flows.{flow}.{flow}",
            name=app.repository.id,
            description=f"{app.repository.root}: {description}",
            parameters={"repository": str(app.repository.root)},
            cron=schedules[flow][0] if flow in schedules else None,
            slug=schedules[flow][1] if flow in schedules else None,
            scheduled=nightly if flow == "intake" else {},
            tags=tuple(tags(app)),
        )
        for flow, description in FLOWS.items()
    )
