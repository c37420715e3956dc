"""The private server of a user, for those who attack it; one for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prefect.conftest import api_url, expect_leak, no_leak_reaches_other_tests, state_folder

__all__ = ["api_url", "no_leak_reaches_other_tests", "state_folder"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)
