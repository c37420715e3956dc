"""A repository's automations on a Prefect server: notify, start, reconcile, kept in line with the configuration.

Automations are identified by name: registering again updates them and removes those that are switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.actions import ActionTypes, RunDeployment, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from irontree.app import App
from irontree.domain.settings import Automations
from irontree.errors import ConfigRefused
from irontree.flows.runs.runs import connect, deployment_id
from irontree.flows.serve.serving import NIGHTLY, nightly_parameters

CLOSED: Final = "irontree.issue_closed"
CLOSING: Final = "{{ event.payload.closer }} closed #{{ event.payload.issue_number }}: {{ event.payload.title }}"
CLOSING_BODY: Final = """\
{{ event.payload.last_comment }}

{{ event.payload.url }}
"""
LABELLED: Final = "irontree.issue_labelled"
ASSIGNED: Final = "irontree.issue_assigned"
CHANGED: Final = "irontree.forge_changed"
ASKED: Final = "irontree.question_asked"
WAITS: Final = "irontree.question_waits"
SUBJECT: Final = "{{ event.payload.what }}: {{ event.payload.title }}"
BODY: Final = """\
Who decides, and how to answer, stands here, behind the button Resume: {{ event.payload.url }}
"""


def register_automations(client: SyncPrefectClient, app: App) -> tuple[str, ...]:
    """Make the server have exactly the automations that this repository's configuration wants; returns their names.

    Its deployments must exist. Raises ConfigRefused for a missing notification block, ServerUnavailable for a
    missing deployment; nothing is changed then.
    """
    missing = {automation.name: automation for automation in _wanted(client, app, app.preferences().automations)}
    names = tuple(missing)
    for found in _there(client, app):
        if automation := missing.pop(found.name, None):
            client.update_automation(found.id, automation)
        else:
            client.delete_automation(found.id)
    for automation in missing.values():
        client.create_automation(automation)
    return names


def remove_automations(client: SyncPrefectClient, app: App) -> tuple[str, ...]:
    """Remove all automations of this repository from the server; returns their names."""
    there = _there(client, app)
    for found in there:
        client.delete_automation(found.id)
    return tuple(found.name for found in there)


def _there(client: SyncPrefectClient, app: App) -> list[Automation]:
    """The registered automations, found by workspace id: the folder may have been renamed since."""
    known: list[Automation] = []
    while page := client.read_automations(offset=len(known)):
        known += page
    return [found for found in known if found.name.startswith("irontree ") and f" {app.repository.id}: " in found.name]


def _wanted(client: SyncPrefectClient, app: App, chosen: Automations) -> Iterator[AutomationCore]:
    for block in chosen.notify:
        told = SendNotification(block_document_id=_block(client, block), subject=SUBJECT, body=BODY)
        why = "Say that a person is asked, with the way to the form."
        yield _automation(app, f"notify {block}", {ASKED, WAITS}, told, why)
        if app.preferences().has_toolchain:
            told = SendNotification(block_document_id=_block(client, block), subject=CLOSING, body=CLOSING_BODY)
            why = "Say that somebody closed an issue by a member of the team."
            yield _automation(app, f"notify {block} of closed issues", {CLOSED}, told, why)
    starting = _starting(app, chosen)
    if starting:
        document = {"__prefect_kind": "jinja", "template": "#{{ event.payload.issue_number }}"}
        asks = _runs(client, app, "intake", {"document": document})
        why = f"Ask for the approval of an issue that is {' or '.join(starting.values())}."
        yield _automation(app, "start", {*starting}, asks, why)
    if chosen.reconcile:
        compares = _runs(client, app, "reconcile", {})
        yield _automation(
            app, "reconcile", {CHANGED}, compares, "Compare the log with the forge when that has changed."
        )


def _starting(app: App, chosen: Automations) -> dict[str, str]:
    """The events that put an issue up for approval, each with what was done to it."""
    labelled = {LABELLED: f"labelled {chosen.start_label}"} if chosen.start_label else {}
    return labelled | ({ASSIGNED: "assigned to a member of the team"} if app.preferences().has_toolchain else {})


def _automation(app: App, name: str, events: set[str], action: ActionTypes, why: str) -> AutomationCore:
    """An automation that acts on each of these events of this repository, its issues and its loops."""
    resource = f"irontree.{app.repository.id}"
    trigger = EventTrigger(
        expect=events,
        match={"prefect.resource.id": [resource, f"{resource}.*"]},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )
    full_name = f"irontree {app.repository.root.name} {app.repository.id}: {name}"
    return AutomationCore(name=full_name, description=why, trigger=trigger, actions=[action])


def _runs(client: SyncPrefectClient, app: App, flow: str, parameters: dict[str, Any]) -> RunDeployment:
    found = deployment_id(client, flow, app.repository.id)
    return RunDeployment(source="selected", deployment_id=found, parameters=parameters, job_variables=None)


def _block(client: SyncPrefectClient, name: str) -> UUID:
    """The notification block `type/name`, as Prefect lists it."""
    kind, _, label = name.partition("/")
    try:
        return client.read_block_document_by_name(name=label, block_type_slug=kind).id
    except ObjectNotFound as error:
        raise ConfigRefused(
            f"automations.notify: the Prefect server has no block {name}",
            remedy="make it there under Blocks, or leave it out of .mino/config.yml",
        ) from error


# --- Following a repository's configuration while it is served


Connect = Callable[[], AbstractContextManager[SyncPrefectClient]]


@dataclass
class Configured:
    """Registers `automations:` of a repository at the first call, and whenever the setting has changed."""

    connect: Connect = connect
    _registered: dict[str, tuple[Automations, bool]] = field(default_factory=dict)

    def __call__(self, app: App) -> Iterator[str]:
        """Yield a line per change; after ConfigRefused or ServerUnavailable the next call tries again."""
        wanted, known = app.preferences().automations, self._registered.get(app.repository.id)
        chosen = wanted, app.preferences().has_toolchain
        if chosen == known:
            return
        with self.connect() as client:
            register_automations(client, app)
            have_nights(client, app, nightly_parameters(wanted))
        self._registered[app.repository.id] = chosen
        if known is not None:
            tonight = f"`{wanted.nightly}` every night" if wanted.nightly else "nothing at night"
            yield f"automations as .mino/config.yml says now; {tonight}"

    def forget(self, repository_id: str) -> None:
        """Register again at the next call: the server may have a new database."""
        self._registered.pop(repository_id, None)


def have_nights(client: SyncPrefectClient, app: App, parameters: Mapping[str, Any]) -> None:
    """Make `intake` start every night with these parameters; with none, not at all.

    Prefect's own registration keeps schedules that are no longer wanted. A correct schedule is left as it is, since a
    user may have paused it. Raises ServerUnavailable if the deployment does not exist.
    """
    cron, slug = NIGHTLY
    intake = deployment_id(client, "intake", app.repository.id)
    there = [found for found in client.read_deployment_schedules(intake) if found.slug == slug]
    if [found.parameters for found in there] == ([dict(parameters)] if parameters else []):
        return
    for found in there:
        client.delete_deployment_schedule(intake, found.id)
    if parameters:
        schedule = CronSchedule(cron=cron, timezone="UTC")
        wanted = DeploymentScheduleCreate(schedule=schedule, slug=slug, parameters=dict(parameters))
        client.create_deployment_schedules(intake, [wanted])
