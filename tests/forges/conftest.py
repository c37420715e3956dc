"""A real Gitea of each pinned version, started once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.ports import Forge
from tests.support.gitea.real import VERSIONS, RealGitea, program_of, real_gitea
from tests.support.gitea.real_stage import OWNER, RealGiteaStage, make_commits

HERE = Path(__file__).parent
GITEA = os.environ.get("GITEA", "")
CHOSEN = VERSIONS[-1:] if GITEA == "one" else VERSIONS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not GITEA:
        longer = pytest.mark.skip(reason="a longer form: make test-forges")
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(longer)


@pytest.fixture(scope="session", params=CHOSEN)
def gitea(request: pytest.FixtureRequest) -> Iterator[RealGitea]:
    if not program_of(request.param).exists():
        pytest.skip(f"Gitea {request.param} is not built: make test-forges")
    folder = Path(tempfile.mkdtemp(prefix="irontree-gitea-"))
    try:
        with real_gitea(request.param, folder) as server:
            for login in (OWNER, "irontree", "writer", "mallory"):
                server.account(login)
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("commits")
    return folder, make_commits(folder)


@pytest.fixture
def stage(gitea: RealGitea, commits: tuple[Path, dict[str, str]]) -> RealGiteaStage:
    return RealGiteaStage(gitea, *commits)


@pytest.fixture
def forge(stage: RealGiteaStage) -> Forge:
    return stage.ours  # type: ignore[no-any-return]
