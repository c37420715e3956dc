"""The server follows a repository's configuration while it is served: its automations, and what it does at night."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule

from irontree.app import App
from irontree.domain.automation_settings import Automations
from irontree.flows.lifecycle import runs
from irontree.flows.lifecycle.automations import register_automations
from irontree.flows.lifecycle.names import deployment
from irontree.flows.local.deployments import NIGHTLY, nightly_parameters

Connect = Callable[[], AbstractContextManager[SyncPrefectClient]]


@dataclass
class Configured:
    """Registers what `automations:` wants when it is first called for a repository, and whenever that has changed."""

    connect: Connect = runs.connect
    _registered: dict[str, Automations] = field(default_factory=dict)

    def __call__(self, app: App) -> Iterator[str]:
        """A line for a change; raises ConfigRefused and ServerUnavailable, and registers it with the next call then."""
        wanted, known = app.preferences().automations, self._registered.get(app.repository.id)
        if wanted == known:
            return
        with self.connect() as client:
            register_automations(client, app)
            have_nights(client, app, nightly_parameters(wanted))
        self._registered[app.repository.id] = wanted
        if known is not None:
            tonight = f"`{wanted.nightly}` every night" if wanted.nightly else "nothing at night"
            yield f"automations as .mino/config.yml says now; {tonight}"

    def forget(self, repository_id: str) -> None:
        """Register it with the next call: the server may have another database by now."""
        self._registered.pop(repository_id, None)


def have_nights(client: SyncPrefectClient, app: App, parameters: Mapping[str, Any]) -> None:
    """Have `intake` start every night with these parameters, with none not at all.

    Prefect's own registering keeps a schedule that is not asked for any more. One that is as it should be stays as it
    is: a person may have paused it. Raises ServerUnavailable where the deployment is not there.
    """
    cron, slug = NIGHTLY
    intake = runs.deployment_id(client, deployment("intake", app))
    there = [found for found in client.read_deployment_schedules(intake) if found.slug == slug]
    if [found.parameters for found in there] == ([dict(parameters)] if parameters else []):
        return
    for found in there:
        client.delete_deployment_schedule(intake, found.id)
    if parameters:
        schedule = CronSchedule(cron=cron, timezone="UTC")
        wanted = DeploymentScheduleCreate(schedule=schedule, slug=slug, parameters=dict(parameters))
        client.create_deployment_schedules(intake, [wanted])
