"""The set-up of several servers and workers, started once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.flows.runs import runs
from tests.prefect.conftest import expect_leak, no_leak_reaches_other_tests
from tests.prefect.harness import prefect_at
from tests.support.cluster import Cluster, cluster, missing

__all__ = ["no_leak_reaches_other_tests"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def scaled() -> Iterator[Cluster]:
    """Two API servers behind one address, with PostgreSQL and Redis."""
    if lacking := missing():
        pytest.skip(f"install {' and '.join(lacking)} (packages of Debian and Ubuntu)")
    folder = Path(tempfile.mkdtemp(prefix="irontree-scale-"))
    try:
        with cluster(folder) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def client(scaled):
    """A client of the servers' one address."""
    with prefect_at(scaled.api_url), runs.connect() as client:
        yield client
