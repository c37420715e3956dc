"""A real repository with a bare remote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repositories import Project, copy_project, make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Project:
    return copy_project(template, tmp_path)
