"""One private server for all tests that need Prefect, in all workers; each test has its own deployments and runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from irontree.flows.runs import runs
from irontree.flows.server.connection import local_environment
from irontree.flows.server.credentials import read_password
from irontree.flows.server.private import LocalServer
from tests.prefect.harness import ROOT, prefect_at, prepare_folder

LEAK = "ignore:unclosed <socket:ResourceWarning"
"""Prefect 3.8 asks for the server's default result storage with a client that it never closes (results.py)."""


def expect_leak(items: list[pytest.Item], folder: Path) -> None:
    """Let the tests of that folder pass although Prefect leaks."""
    below = f"{folder.relative_to(ROOT)}/"
    for item in items:
        if item.nodeid.startswith(below):
            item.add_marker(pytest.mark.filterwarnings(LEAK))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)


@pytest.fixture(scope="module", autouse=True)
def no_leak_reaches_other_tests():
    """Collect what Prefect left open while its warning is expected."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def state_folder(tmp_path_factory) -> Path:
    """The state folder of the server, one for all workers of a run: each server takes 25 s of CPU."""
    own = tmp_path_factory.getbasetemp()
    return prepare_folder((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "prefect")


@pytest.fixture(scope="session")
def server_url(state_folder) -> Iterator[str]:
    """The server; it ends with the last worker that needed it."""
    with closing(LocalServer(state_folder, os.environ, linger=1).start()) as server:
        yield server.wait_ready()


@pytest.fixture(scope="module")
def api_url(state_folder, server_url) -> Iterator[str]:
    """The server, with this process's Prefect pointed at it: other tests of the process are not to reach it."""
    with prefect_at(server_url, read_password(state_folder)):
        yield server_url


@pytest.fixture(scope="module")
def environment(state_folder, api_url) -> dict[str, str]:
    """For processes that serve the sample flows."""
    return local_environment(os.environ, state_folder, api_url) | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def client(api_url):
    """A client of the session's server."""
    with runs.connect() as client:
        yield client
