"""The private server: one however many start it, found by its clients, gone after the last of them, disposable."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.local_server import LocalServer, answers
from tests.prefect.harness import prepare_home


@pytest.fixture
def own_home(tmp_path):
    """A state folder that no other test uses."""
    return prepare_home(tmp_path / "state")


def port_of(api_url: str) -> int:
    return int(api_url.rsplit(":", 1)[1].removesuffix("/api"))


def pid_of(home) -> int:
    return json.loads((home / "server.json").read_text())["pid"]


def wait_for_end(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=30)


def test_two_starts_at_once_give_one_server_on_a_free_port_that_ends_after_its_last_client(own_home, api_url):
    servers = [LocalServer(own_home, os.environ, linger=0) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        addresses = set(pool.map(lambda server: server.wait_ready(), servers))
    assert len(addresses | {api_url}) == 2
    pid = pid_of(own_home)
    servers[0].close()
    assert answers(port_of(addresses.pop()))
    servers[1].close()
    wait_for_end(pid)
    assert not (own_home / "server.json").exists()


def test_a_killed_server_is_started_again_where_its_clients_look_for_it(own_home):
    with LocalServer(own_home, os.environ, linger=0) as server:
        before = server.wait_ready()
        killed = pid_of(own_home)
        os.kill(killed, signal.SIGKILL)
        wait_for_end(killed)
        assert not answers(port_of(before))
        assert server.wait_ready() == before
        again = pid_of(own_home)
    wait_for_end(again)
    assert again != killed


def test_a_database_that_is_none_is_named_with_its_remedy(own_home):
    (own_home / "prefect.db").write_text("this is not a database, and long enough to be taken for a damaged one" * 20)
    with LocalServer(own_home, os.environ, linger=0) as server, pytest.raises(ServerUnavailable) as refusal:
        server.wait_ready()
    assert f"{own_home / 'prefect.db'} is damaged or of another Prefect version" in refusal.value.remedy


def test_a_server_that_cannot_start_says_why(own_home):
    environ = dict(os.environ) | {"PYTHONPATH": str(own_home)}
    (own_home / "uvicorn.py").write_text("raise TypeError('fastapi: Body() got an unexpected keyword argument')")
    with LocalServer(own_home, environ, linger=0) as server, pytest.raises(ServerUnavailable) as refusal:
        server.wait_ready()
    assert "unexpected keyword argument" in refusal.value.message
    assert "does not fit Prefect" in refusal.value.remedy
    assert "pip install 'fastapi" in refusal.value.remedy


def test_nothing_but_prefect_answers_for_a_server():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
    assert not answers(port)
