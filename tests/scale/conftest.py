"""The set-up of several servers and workers, started once."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.flows.runs import runs
from tests.prefect.conftest import LEAK
from tests.prefect.harness import prefect_at
from tests.support.cluster import Cluster, cluster, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings(LEAK))


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


@pytest.fixture(scope="module", autouse=True)
def no_leak_reaches_other_tests():
    """Collect what Prefect left open while its warning is expected."""
    yield
    gc.collect()


@pytest.fixture
def client(scaled):
    """A client of the servers' one address."""
    with prefect_at(scaled.api_url), runs.connect() as client:
        yield client
