"""A folder to call `hotl-rt` in, and a repository that is copied, not made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.hotl import Hotl
from tests.support.repositories import commit, git


@pytest.fixture
def hotl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hotl:
    folder = tmp_path / "place"
    (folder / "fixtures").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HOTL_RUN_ID", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no pytest: what calls it fails at once
    return Hotl(folder)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit on main."""
    folder = tmp_path_factory.mktemp("template")
    git(folder, "init", "--quiet")
    commit(folder, "README.md", "# repo\n")
    return folder


@pytest.fixture
def repository(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder."""
    folder = tmp_path / "repo"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HOTL_RUN_ID", raising=False)
    return folder
