"""`irontree serve` lets go of what is removed while it serves it; a worker that takes up nothing stands in."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest
from prefect.deployments.runner import RunnerDeployment

from irontree.flows.local.registration import register
from irontree.flows.local.service import Service
from irontree.flows.local.serving import LIMIT
from irontree.services.overview import SERVING
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
def service(toys, environment, home):
    """Serves both with one worker."""
    apps = [toy.app for toy in toys]
    with Service(
        apps, environment=environment, home=home, say=lambda *_: None, duties=(), start_worker=StandIn
    ) as service:
        service.start()
        yield service


def test_what_is_removed_together_is_let_go_of_together(service, toys):
    for toy in toys:
        service.let_go(toy.id)
    assert {*service.look(), *service.look()} == {toy.id for toy in toys}
    assert service.served == ()
    assert [toy.app.alive(SERVING).holder() for toy in toys] == [None, None]
