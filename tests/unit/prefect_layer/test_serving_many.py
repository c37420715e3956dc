"""Who serves many repositories while the server is away, or one of them cannot be served: it says so, and goes on."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from irontree.app import App
from irontree.errors import ConfigRefused, EnvironmentRefused, NotARepository
from irontree.flows.serve.service import Service
from irontree.flows.serve.serving import Serving
from irontree.store.memory import MemoryLock
from tests.support.prefect_stub import prefect_that
from tests.support.world import TickingClock, make_scene

NOBODY = "http://127.0.0.2:9/api"
"""An address where nothing listens; not one of those that are waited for."""


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_terminal_that_ends_while_the_server_is_away_does_not_end_who_serves(tmp_path):
    scene, said = make_scene(tmp_path), []
    terminal = MemoryLock(scene.clock)
    app = replace(scene.app, alive=lambda _: terminal)
    with (
        temporary_settings({PREFECT_API_URL: NOBODY}),
        Service([app], environment={}, folder=tmp_path, say=lambda _, text: said.append(text), chores=()) as service,
    ):
        with terminal.hold("irontree task"):
            service.start()
        service.look()
        assert service.elsewhere == (app,)
    assert terminal.holder() is None
    assert "cannot be reached" in said[0]


NEW = "new"
"""A repository that no worker has ever served, and has no queue therefore."""


def has_no_runs(method: str, path: str) -> tuple[int, object]:
    """A Prefect server that has any queue but those of NEW, and no run."""
    if method == "GET" and "/queues/" in path and not path.endswith(f"/{NEW}"):
        return 200, {"id": str(uuid.uuid4()), "name": "any", "work_pool_id": None}
    if method == "GET":
        return 404 if "/queues/" in path else 501, {}
    return (200, []) if method == "POST" else (204, None)


@pytest.fixture
def without_runs() -> Iterator[None]:
    """Prefect's client in this process talks to it."""
    with prefect_that(has_no_runs):
        yield


class StandIn:
    """A worker that takes up nothing, and dies when the test says so."""

    made: list[StandIn]

    def __init__(self, deployments, **_: object) -> None:
        self.names = {served.owner for served in deployments}
        self.lives = True
        self.made.append(self)

    def wait_ready(self) -> None:
        """It is at once."""

    def alive(self) -> bool:
        return self.lives

    def how_it_ended(self) -> str:
        return "was killed by SIGKILL"

    def finish(self) -> None:
        """There is no flow."""

    def stop(self) -> None:
        """There is no process."""


class Deleted:
    """A repository, of which the test says that its folder is gone, or its configuration no use."""

    def __init__(self, app: App) -> None:
        self.gone = self.misconfigured = False
        self.lock = MemoryLock(TickingClock())
        self.app = replace(app, alive=lambda _: self, preferences=self._preferences)
        self._settings = app.preferences()

    def holder(self) -> None:
        """Nobody has it."""

    @contextmanager
    def hold(self, what: str, *, wait_seconds: float = 0) -> Iterator[None]:
        if self.gone:
            raise EnvironmentRefused("no .mino folder there")
        with self.lock.hold(what, wait_seconds=wait_seconds):
            yield

    def _preferences(self):
        if self.gone:
            raise NotARepository("no git repository there")
        if self.misconfigured:
            raise ConfigRefused(".mino/config.yml: no such setting")
        return self._settings


@pytest.fixture
def apps(tmp_path):
    """Two repositories; the first can be deleted."""
    scenes = {name: make_scene(tmp_path / name) for name in ("one", "two")}
    for name, scene in scenes.items():
        scene.repository.id = name
    locks = {name: MemoryLock(scene.clock) for name, scene in scenes.items()}
    return Deleted(scenes["one"].app), replace(scenes["two"].app, alive=lambda _: locks["two"])


@pytest.fixture
def workers() -> list[StandIn]:
    return []


@pytest.fixture
def said() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def unusual() -> list[type[Serving]]:
    """What is started before the next stand-in."""
    return []


@pytest.fixture
def service(apps, workers, said, unusual, tmp_path, without_runs):
    worker = type("Worker", (StandIn,), {"made": workers})

    def start_worker(*given, **named):
        kind = unusual.pop() if unusual else worker
        return kind(*given, **named)

    with Service(
        [apps[0].app, apps[1]],
        environment={},
        folder=tmp_path,
        say=lambda app, text: said.append((app.repository.id, text)),
        chores=(),
        start_worker=start_worker,
        now=itertools.count(step=60).__next__,
    ) as service:
        yield service


def test_one_that_is_deleted_while_a_terminal_serves_it_keeps_no_other_from_being_served(service, apps, said, workers):
    """...it is said once, and the others of the list are taken over as ever."""
    first, second = apps
    with first.hold("irontree task"), second.alive("serving").hold("irontree task"):
        service.start()
        first.gone = True
    for _ in range(3):
        service.look()
    assert [text for name, text in said if name == "one"] == ["no .mino folder there"]
    assert (service.elsewhere, service.served) == ((first.app,), (second,))
    assert [worker.names for worker in workers] == [{"two"}]


def test_one_that_is_deleted_while_we_serve_it_keeps_no_other_from_a_new_worker_and_is_let_go(
    service, apps, said, workers
):
    first, second = apps
    service.start()
    assert [worker.names for worker in workers] == [{"one", "two"}]
    first.gone, workers[0].lives = True, False
    for _ in range(3):
        service.look()
    assert workers[1].names == {"two"}
    assert service.served == (second,)
    assert [text for name, text in said if name == "one"].count("no git repository there") == 1
    service.let_go("one")
    assert [gone for _ in range(3) for gone in service.look()] == ["one"]
    assert service.served == (second,)
    with first.lock.hold("somebody else"):
        pass


def test_one_that_no_worker_could_ever_serve_is_let_go(service, apps, said, workers):
    """...although it has no queue that could be closed."""
    first, second = apps
    first.app.repository.id = NEW
    first.misconfigured = True
    service.start()
    assert (service.elsewhere, service.served) == ((), (second,))
    service.let_go(NEW)
    assert [gone for _ in range(3) for gone in service.look()] == [NEW]
    assert (NEW, f"not served any more: {first.app.repository.root}") in said
    with first.lock.hold("somebody else"):
        pass


def kept() -> list[str]:
    """The threads that hand credentials (those that answer a single request end by themselves), and scratch folders."""
    threads = [thread.name for thread in threading.enumerate() if thread.name == "handing"]
    return threads + [file.path for file in psutil.Process().open_files() if "irontree-serving-" in file.path]


def test_a_worker_that_the_disk_does_not_let_start_is_tried_again_and_leaves_nothing(
    service, said, workers, unusual, tmp_path
):
    service.start()
    before = kept()
    (tmp_path / "serving-all.log").mkdir()
    unusual.append(Serving)
    workers[0].lives = False
    service.look()
    [first, second] = [text for _, text in said if "The flows could not be served" in text]
    assert first == second
    assert "the worker died; starting another. It was killed by SIGKILL." in [text for _, text in said]
    assert f"Is a directory: '{tmp_path / 'serving-all.log'}'" in first
    assert kept() == before
    service.look()
    assert [worker.names for worker in workers] == [{"one", "two"}] * 2
    assert {app.repository.id for app in service.served} == {"one", "two"}
