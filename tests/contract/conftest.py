"""What the contract suites of a port share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.ports import Forge, Repository
from tests.support.forges import Stage
from tests.support.memory_project import make_memory_project
from tests.support.repositories import make_project
from tests.support.stages import STAGES


@pytest.fixture(params=sorted(STAGES))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Each forge in turn."""
    with STAGES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def forge(stage: Stage) -> Forge:
    """The forge as our account sees it."""
    return stage.ours


@pytest.fixture(params=[make_project, make_memory_project], ids=["git", "memory"])
def project(request, tmp_path):
    """A project whose repository is each adapter's in turn."""
    return request.param(tmp_path)


@pytest.fixture
def repository(project) -> Repository:
    """Its repository."""
    return project.repository


@pytest.fixture(params=["remote", "no remote"])
def policy(request, project):
    """Where verified code goes: with and without a remote."""
    return project.target if request.param == "remote" else project.local_target
