"""The private server: one however many start it, found by its clients, gone after the last of them, disposable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest
import sqlalchemy as sa
from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

from irontree.errors import ServerUnavailable
from irontree.flows.server.connection import ListenAddress
from irontree.flows.server.credentials import read_password
from irontree.flows.server.listening import is_prefect
from irontree.flows.server.private import LocalServer, garbage_collected_aside, queued_writers
from tests.prefect.harness import prepare_folder
from tests.support.soak import in_soak


@pytest.fixture
def own_home(tmp_path):
    """A state folder that no other test uses."""
    return prepare_folder(tmp_path / "state")


def port_of(api_url: str) -> int:
    return int(api_url.rsplit(":", 1)[1].removesuffix("/api"))


def pid_of(state_folder) -> int:
    return json.loads((state_folder / "server.json").read_text())["pid"]


def login(state_folder) -> tuple[str, str]:
    user, _, password = (read_password(state_folder) or "").partition(":")
    return user, password


def wait_for_end(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=30)


def is_taken(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_two_starts_give_one_server_that_comes_back_when_killed_and_ends_after_its_last_client(own_home, api_url):
    """...on a free port, and after its death on the same one: its clients still know it."""
    servers = [LocalServer(own_home, os.environ, linger=0) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        expected = set(pool.map(lambda server: server.expected(), servers))
        addresses = set(pool.map(lambda server: server.wait_ready(), servers))
    assert addresses == expected
    assert len(addresses | {api_url}) == 2
    killed, address = pid_of(own_home), addresses.pop()
    os.kill(killed, signal.SIGKILL)
    wait_for_end(killed)
    [again] = {server.wait_ready() for server in servers}
    assert again == address or is_taken(port_of(address)), "another test's server may have taken the port meanwhile"
    pid = pid_of(own_home)
    assert pid != killed
    servers[0].close()
    assert is_prefect(port_of(again))
    servers[1].close()
    wait_for_end(pid)
    assert not (own_home / "server.json").exists()


@in_soak
def test_a_server_that_nobody_uses_makes_room_for_a_fixed_port_and_one_in_use_does_not(own_home, api_url):
    with closing(LocalServer(own_home, os.environ, linger=60).start()) as left_behind:
        left_behind.wait_ready()
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with closing(LocalServer(own_home, os.environ, linger=0, place=ListenAddress(port=port)).start()) as server:
        assert port_of(server.wait_ready()) == port
        taken = f"is at port {port} of 127.0.0.1, where other commands use it"
        other = LocalServer(own_home, os.environ, place=ListenAddress(port=port + 1))
        with closing(other), pytest.raises(ServerUnavailable, match=taken):
            other.wait_ready()
        pid = pid_of(own_home)
    wait_for_end(pid)


@in_soak  # three starts of a server, with migrations each
def test_a_database_that_is_deleted_or_damaged_is_made_anew_while_the_server_is_at_work(own_home, api_url):
    """A client's server comes back with a new one, and says so; one that lingers ends."""
    database = own_home / "prefect.db"
    with closing(LocalServer(own_home, os.environ, linger=60).start()) as server:
        address = server.wait_ready()
        known = login(own_home)
        flow = httpx.post(f"{address}/flows/", json={"name": "lost"}, auth=known).json()["id"]
        first = pid_of(own_home)
        database.unlink()
        wait_for_end(first)
        address = server.wait_ready()
        assert httpx.get(f"{address}/flows/{flow}", auth=known).status_code == HTTPStatus.NOT_FOUND
        assert any("was deleted or exchanged" in line for line in server.told())
        second = pid_of(own_home)
        database.write_bytes(b"")
        wait_for_end(second)
        address = server.wait_ready()
        assert httpx.post(f"{address}/flows/", json={"name": "new"}, auth=known).status_code == HTTPStatus.CREATED
        assert any("is set aside as" in line for line in server.told())
        lingers = pid_of(own_home)
    database.write_bytes(os.urandom(10_000))
    wait_for_end(lingers)
    assert not is_taken(port_of(address))


def test_a_server_that_cannot_start_says_why(own_home):
    environ = dict(os.environ) | {"PYTHONPATH": str(own_home)}
    (own_home / "uvicorn.py").write_text("raise TypeError('fastapi: Body() got an unexpected keyword argument')")
    with (
        closing(LocalServer(own_home, environ, linger=0).start()) as server,
        pytest.raises(ServerUnavailable) as refusal,
    ):
        server.wait_ready()
    assert "unexpected keyword argument" in refusal.value.message
    assert "does not fit Prefect" in refusal.value.remedy
    assert "pip install 'fastapi" in refusal.value.remedy


def test_a_state_folder_that_cannot_be_made_is_said_with_its_remedy(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerUnavailable, match="Not a directory") as refusal:
        LocalServer(tmp_path / "file" / "state", os.environ)
    assert "XDG_STATE_HOME" in refusal.value.remedy


def test_nothing_but_prefect_answers_for_a_server():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
    assert not is_prefect(port)


def test_writers_at_the_same_time_are_all_served(api_url, state_folder):
    """Prefect's own SQLite transactions answer most of them with 503; its client then waits for seconds."""
    known = login(state_folder)
    flow = httpx.post(f"{api_url}/flows/", json={"name": "crowded"}, auth=known).json()["id"]

    def write(_: int) -> int:
        return httpx.post(f"{api_url}/flow_runs/", json={"flow_id": flow}, auth=known).status_code

    with ThreadPoolExecutor(4) as clients:
        assert set(clients.map(write, range(40))) == {HTTPStatus.CREATED}


@pytest.fixture
def database(tmp_path):
    """A database as the private server uses it."""
    from prefect.server.database import provide_database_interface

    url = f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: url}), queued_writers(), garbage_collected_aside():
        yield provide_database_interface()


def test_a_writer_that_waits_does_not_stop_the_server(database):
    async def leave_cursors_on_two_connections() -> list[object]:
        async with database.session_context() as one, database.session_context() as other:
            drivers = [
                (await (await session.connection()).get_raw_connection()).driver_connection for session in (one, other)
            ]
            for driver in drivers:
                await driver.execute("PRAGMA busy_timeout = 5000")
            return [in_a_cycle(await driver.execute("SELECT 1 UNION SELECT 2")) for driver in drivers]

    async def write(cursors: list[object]) -> None:
        async with database.session_context(begin_transaction=True) as session:
            await session.execute(sa.text("CREATE TABLE IF NOT EXISTS written (name)"))
            await asyncio.sleep(0.2)
            cursors.clear()
            for _ in range(50_000):
                in_a_cycle(SimpleNamespace())

    async def two_writers() -> None:
        cursors = await leave_cursors_on_two_connections()
        await asyncio.gather(write(cursors), write(cursors))

    asyncio.run(two_writers())


def in_a_cycle(thing: Any) -> object:
    """It, as something that only the garbage collector takes away."""
    thing.itself = thing
    return thing
