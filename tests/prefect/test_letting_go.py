"""`irontree serve` lets go of what is removed while it serves it; a worker that takes up nothing stands in."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.states import Completed, Pending

from irontree.flows.runs import runs
from irontree.flows.serve.chores import Chore
from irontree.flows.serve.service import Service
from irontree.flows.serve.serving import LIMIT, POOL, register
from irontree.services.views.overview import SERVING
from tests.prefect.toys import GREETING, make_toy


class StandIn:
    """A worker that makes its deployments known; what is taken up, the test says."""

    def __init__(self, deployments, **_: object) -> None:
        self._deployments = [asdict(served) for served in deployments]

    def wait_ready(self) -> None:
        asyncio.run(register(self._deployments, queue_limit=LIMIT, add=RunnerDeployment.aapply, reopen=True))

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        """There is no process."""


@pytest.fixture
def toys(tmp_path, client):
    return [make_toy(tmp_path / name, client, GREETING) for name in ("one", "two")]


@pytest.fixture
def forgotten() -> list[str]:
    """The repositories of which a chore was asked to forget what the server was told."""
    return []


@pytest.fixture
def service(toys, environment, state_folder, forgotten):
    """Serves both with one worker."""
    apps, remembers = [toy.app for toy in toys], Chore("remember", 60.0, lambda _: (), forget=forgotten.append)
    with Service(
        apps,
        environment=environment,
        folder=state_folder,
        say=lambda *_: None,
        chores=(remembers,),
        start_worker=StandIn,
    ) as service:
        service.start()
        yield service


def test_what_is_removed_together_is_let_go_of_together(service, toys, client, forgotten):
    """...and nothing is scheduled there any more that nobody would take up; what a person made is left."""
    assert forgotten == [toy.id for toy in toys], "each worker that starts may meet another database"
    by_hand = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 5 * * 0"), slug="on-sundays")
    registered = deployments(toys[0], client)
    crons = {name: [entry.schedule.cron for entry in found.schedules] for name, found in registered.items()}
    assert crons == {"janitor": ["*/5 * * * *"], "reconcile": ["0 3 * * *"], "intake": [], "issue": [], "loop": []}
    assert registered["janitor"].parameters == {"repository": str(toys[0].root)}
    client.create_deployment_schedules(registered["reconcile"].id, [by_hand])
    assert schedules(toys[0], client) == ["five-minutes", "nightly", "on-sundays"]
    for toy in toys:
        service.let_go(toy.id)
    assert {*service.look(), *service.look()} == {toy.id for toy in toys}
    assert service.served == ()
    assert [toy.app.alive(SERVING).holder() for toy in toys] == [None, None]
    assert [schedules(toy, client) for toy in toys] == [["on-sundays"], []]


def deployments(toy, client) -> dict[str, DeploymentResponse]:
    """By the names of their flows."""
    mine = runs.of_repository(toy.id)
    return {client.read_flow(found.flow_id).name: found for found in client.read_deployments(deployment_filter=mine)}


def schedules(toy, client) -> list[str]:
    return sorted(schedule.slug for found in deployments(toy, client).values() for schedule in found.schedules)


def test_a_run_that_was_being_taken_up_when_its_queue_was_closed_is_finished_first(service, toys, client):
    """...and what it starts is taken up meanwhile: its queue is open again, as where the repository is added again."""
    leaving, staying = toys
    for toy in toys:
        service.let_go(toy.id)
    assert service.look() == ()
    assert (slots(leaving, client), slots(staying, client)) == (0, 0)
    run = runs.ensure_run(client, leaving.deployment("janitor"), key=leaving.id, parameters={}).id
    client.set_flow_run_state(run, Pending())
    service.add(staying.app)
    assert service.look() == ()
    assert (slots(leaving, client), slots(staying, client)) == (LIMIT, LIMIT)
    client.set_flow_run_state(run, Completed(), force=True)
    assert (*service.look(), *service.look()) == (leaving.id,)
    assert slots(leaving, client) == 0


def slots(toy, client) -> int | None:
    """How many of its runs workers take up at a time."""
    return client.read_work_queue_by_name(toy.id, work_pool_name=POOL).concurrency_limit
