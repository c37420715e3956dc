"""Who serves many repositories while the server is away: it says so, and goes on when the server does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from irontree.flows.local.service import Service
from irontree.store.memory import MemoryLock
from tests.support.world import make_scene

NOBODY = "http://127.0.0.2:9/api"
"""An address where nothing listens; not one of those that are waited for."""


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_terminal_that_ends_while_the_server_is_away_does_not_end_who_serves(tmp_path):
    scene, said = make_scene(tmp_path), []
    terminal = MemoryLock(scene.clock)
    app = replace(scene.app, alive=lambda _: terminal)
    with (
        temporary_settings({PREFECT_API_URL: NOBODY}),
        Service([app], environment={}, home=tmp_path, say=lambda _, text: said.append(text), duties=()) as service,
    ):
        with terminal.hold("irontree task"):
            service.start()
        service.look()
        assert service.elsewhere == (app,)
    assert terminal.holder() is None
    assert "cannot be reached" in said[0]
