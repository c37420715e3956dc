"""A real repository with a program that no git of ours may ever run, and the private server of a user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.prefect.conftest import api_url, expect_leak, no_leak_reaches_other_tests, server_url, state_folder
from tests.support.repositories import Project, git, head, hook, make_project, write

__all__ = ["api_url", "no_leak_reaches_other_tests", "server_url", "state_folder"]

PRECIOUS = "precious\n"


@dataclass(frozen=True)
class Attacked:
    """A project whose run workspace an agent has; *outside* is a folder that is none of the agent's business."""

    project: Project
    outside: Path
    sprung: Path
    """Is there once a program of the agent's has run where it must not."""
    trap: Path

    @property
    def base(self) -> str:
        return head(self.project.root)

    @property
    def path(self) -> Path:
        return self.project.run_workspace().path

    def prepare(self) -> None:
        self.project.run_workspace().prepare(self.base)

    def act(self, script: str) -> None:
        """What the agent does; its own git may spring the trap, which does not count."""
        variables = {"OUTSIDE": self.outside, "TRAP": self.trap, "ROOT": self.project.root}
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        subprocess.run(["sh", "-c", script], cwd=self.path, env=environment, check=True, timeout=60)
        self.sprung.unlink(missing_ok=True)

    def commit(self):
        return self.project.run_workspace().commit("[run] #1: work\n\nIrontree-Run: t\n", base=self.base)

    def kept(self, sha: str) -> Callable[[str], str]:
        """The files of that commit as the user's repository gets them."""
        self.project.repository.keep(sha, "refs/irontree/issue-1/2", source=self.project.run_workspace())
        return lambda path: git(self.project.root, "show", f"{sha}:{path}")

    def assert_unharmed(self) -> None:
        assert not self.sprung.exists(), "a program of the agent's was run"
        assert {path.read_text() for path in self.outside.iterdir() if path.is_file()} == {PRECIOUS}


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    project = make_project(tmp_path)
    (outside := tmp_path / "outside").mkdir()
    write(outside, config=PRECIOUS, exclude=PRECIOUS, **{"app.py": PRECIOUS, "file": PRECIOUS})
    sprung = tmp_path / "sprung"
    made = Attacked(project, outside, sprung, hook(tmp_path, "trap", f"touch '{sprung}'; cat"))
    made.prepare()
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_leak(items, Path(__file__).parent)
