"""Whole programs, as somebody types, kills or serves them (`make test-e2e`); a server for those that need only that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.prefect.conftest import (
    api_url,
    client,
    environment,
    expect_leak,
    no_leak_reaches_other_tests,
    server_url,
    state_folder,
)
from tests.support.crashes import undisturbed_outcome
from tests.support.processes import Witness
from tests.support.soak import SOAK

__all__ = ["api_url", "client", "environment", "no_leak_reaches_other_tests", "server_url", "state_folder"]

collect_ignore_glob = [] if SOAK or "E2E" in os.environ else ["test_*.py"]
"""A file that is named on the command line is collected all the same."""


@pytest.fixture
def witness(tmp_path) -> Iterator[Witness]:
    """Sees the agents' processes."""
    made = Witness(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, api_url) -> dict[str, Any]:
    """What there is after a run that nobody disturbed."""
    return undisturbed_outcome(tmp_path_factory.mktemp("undisturbed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)
