"""The process that will serve flows waits for its order, and outlives neither a change of mind nor its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from irontree.cli.drive import Server
from irontree.errors import ServerUnavailable
from irontree.flows.serve.child import OF_MANY, Child
from irontree.flows.serve.forking import FORKS
from irontree.flows.serve.session import TerminalSession
from irontree.flows.server.private import LocalServer
from irontree.store.memory import MemoryLock
from tests.support.world import make_scene

PATIENCE = 60.0


def wait_until(holds) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_named(text: str, parent: int) -> list[psutil.Process]:
    return [each for each in psutil.Process(parent).children() if text in " ".join(each.cmdline())]


def test_one_that_gets_no_order_says_nothing_and_is_gone_with_its_folder(tmp_path):
    child = Child(OF_MANY, environment=dict(os.environ), folder=tmp_path)
    assert child.alive()
    [process] = children_named("serve.serving", os.getpid())
    child.stop()
    child.stop()
    assert not child.alive()
    assert not process.is_running()
    assert (tmp_path / "serving-all.log").read_text() == ""


def test_one_ends_with_its_parent_and_leaves_no_complaint(tmp_path):
    program = (
        "import os, pathlib, sys, time; from irontree.flows.serve.child import Child; "
        "Child('all', environment=dict(os.environ), folder=pathlib.Path(sys.argv[1])); print('up', flush=True); "
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        parent.stdout.readline()
        [child] = children_named("serve.serving", parent.pid)
        wait_until(lambda: child.num_threads() > 1)  # it watches its parent, and waits for the order
        os.kill(parent.pid, signal.SIGKILL)
    psutil.wait_procs([child], timeout=PATIENCE)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert (tmp_path / "serving-all.log").read_text() == ""


@pytest.fixture
def silent_server():
    """The address of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/api"


@pytest.fixture
def begun(tmp_path, silent_server):
    """One that has its order, and waits for the server; with its process, and the one that starts flows for it."""
    child = Child(OF_MANY, environment={**os.environ, "PREFECT_API_URL": silent_server}, folder=tmp_path)
    [serving] = children_named("serve.serving", os.getpid())
    wait_until(lambda: serving.children() and serving.num_threads() > 1)
    [forking] = serving.children()
    yield child, serving, forking
    child.stop()


@pytest.mark.skipif(not FORKS, reason="here each flow process is a Python of its own")
def test_where_the_process_that_starts_flows_was_killed_that_is_said_and_how_to_go_on(begun):
    child, _, forking = begun
    forking.kill()
    child.order({"limit": 1, "by": "worker", "deployments": []})
    with pytest.raises(ServerUnavailable) as found:
        child.answer(PATIENCE)
    assert found.value.message.startswith(
        "The flows could not be served: the process that serves them was killed by SIGKILL."
    )
    assert "\nThe process that starts flows was killed by SIGKILL." in found.value.message
    assert "Go on with `irontree resume`." in (found.value.remedy or "")
    assert child.how_it_ended() == "was killed by SIGKILL. The process that starts flows was killed by SIGKILL"


def test_one_that_hangs_is_ended_with_the_seconds_that_it_was_given(begun):
    child, serving, _ = begun
    serving.suspend()
    child.order({"limit": 1, "by": "worker", "deployments": []})
    with pytest.raises(ServerUnavailable, match="the process that serves them gave no sign for 1 s, and was ended"):
        child.answer(1)
    assert not child.alive()


def test_a_terminal_that_only_looks_on_keeps_none(tmp_path):
    scene = make_scene(tmp_path)
    serving = MemoryLock(scene.clock)
    app = replace(scene.app, alive=lambda _: serving)
    child = Child(OF_MANY, environment=dict(os.environ), folder=tmp_path)
    with (
        serving.hold("irontree serve"),
        TerminalSession(app, environment={}, folder=tmp_path, child=child) as session,
    ):
        assert not session.serves
        assert not child.alive()


def test_a_log_that_cannot_be_written_is_said_with_its_reason(tmp_path):
    (tmp_path / "serving-all.log").mkdir()
    with pytest.raises(ServerUnavailable, match="Is a directory"):
        Child(OF_MANY, environment={}, folder=tmp_path)


def test_who_says_no_leaves_no_process_and_does_not_wait_for_a_server(tmp_path):
    """The server of this test never says where it will answer."""
    app = make_scene(tmp_path).app

    def start(_: str, __: list[str], *, folder: Path, **___: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], cwd=folder)

    private = LocalServer(tmp_path / "state", {}, start=start)
    began = time.monotonic()
    with closing(private), Server(tmp_path / "state", None, private) as server:
        server.start(app)
    assert time.monotonic() - began < PATIENCE / 2
    assert children_named("serve.serving", os.getpid()) == []
    for sleeping in children_named("sleep 600", os.getpid()):
        sleeping.kill()


# --- A terminal and the process that serves for it -----------------------------------------------------------------


@dataclass
class Orders:
    """Stands for that process: it answers what a test says."""

    says: dict[str, str]
    orders: list[dict[str, object]] = field(default_factory=list)

    def order(self, what: dict[str, object]) -> None:
        self.orders.append(what)

    def answer(self, _: float) -> dict[str, str]:
        return self.says

    def stop(self) -> None:
        pass


class Adopted(Exception):
    """Prefect would be imported next."""


def import_prefect() -> None:
    raise Adopted


@pytest.fixture
def terminal(tmp_path):
    """Begins with that process; at its end it asks what became of the runs, which takes Prefect."""

    @contextmanager
    def terminal(child: Orders) -> Iterator[TerminalSession]:
        scene = make_scene(tmp_path)
        serving = MemoryLock(scene.clock)
        app = replace(scene.app, alive=lambda _: serving)
        session = TerminalSession(app, environment={}, folder=tmp_path, child=child, adopt=import_prefect)
        with pytest.raises(Adopted), session:
            yield session

    return terminal


def test_a_terminal_has_its_loop_set_going_and_imports_no_prefect_for_it(terminal):
    child = Orders({"page": "http://127.0.0.1/runs/1"})
    with terminal(child) as session:
        assert session.begin("loop-1") == "http://127.0.0.1/runs/1"
    assert [(order["by"], order["loop"]) for order in child.orders] == [("terminal", "loop-1")]


def test_what_keeps_a_loop_from_going_is_said_with_how_to_go_on(terminal):
    with terminal(Orders({"refused": "it is away"})) as session:
        with pytest.raises(ServerUnavailable, match="it is away") as found:
            session.begin("loop-1")
        assert "irontree resume" in (found.value.remedy or "")


def test_what_follows_a_loop_is_imported_without_prefect():
    script = "import sys, irontree.cli.drive, irontree.cli.follow; sys.exit('prefect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
