"""A Gitea server that has our account on it, and the forge as we reach it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from irontree.forges.gitea import GiteaForge
from tests.support.gitea.server import GiteaServer, gitea_server
from tests.support.gitea.stage import MovingClock, Waits, settings


@pytest.fixture
def time() -> MovingClock:
    return MovingClock()


@pytest.fixture
def server(time: MovingClock) -> Iterator[GiteaServer]:
    with gitea_server(time.now) as running:
        running.contents.account("irontree", "admin")
        yield running


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def forge(server: GiteaServer, waits: Waits) -> GiteaForge:
    return GiteaForge(settings(server, "token-of-irontree", sleep=waits))


@pytest.fixture
def pull(server: GiteaServer, forge: GiteaForge) -> int:
    server.contents.push("it", "b" * 40)
    return forge.create_pull_request(head="it", base="main", title="It", body="", draft=False).number
