"""One private server for all tests that need Prefect, in all workers; each test has its own deployments and runs."""

from __future__ import annotations

import gc
import os
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
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.filterwarnings(LEAK))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)


@pytest.fixture(scope="module", autouse=True)
def no_leak_reaches_other_tests():
    """Collect what Prefect left open while its warning is expected."""
    yield
    gc.collect()


@pytest.fixture(scope="package")
def state_folder(tmp_path_factory) -> Path:
    """The state folder of the server, one for all workers of a run: each server takes 25 s of CPU."""
    own = tmp_path_factory.getbasetemp()
    return prepare_folder((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "prefect")


@pytest.fixture(scope="package")
def api_url(state_folder):
    """The server, with this process's Prefect pointed at it."""
    with closing(LocalServer(state_folder, os.environ, linger=1).start()) as server:
        api_url = server.wait_ready()
        with prefect_at(api_url, read_password(state_folder)):
            yield api_url


@pytest.fixture(scope="package")
def environment(state_folder, api_url) -> dict[str, str]:
    """For processes that serve the sample flows."""
    return local_environment(os.environ, state_folder, api_url) | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def client(api_url):
    """A client of the session's server."""
    with runs.connect() as client:
        yield client
