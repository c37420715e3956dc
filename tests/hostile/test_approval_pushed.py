"""A log that came with a commit: whoever can push wrote its approvals, answers and events, and none of it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app, set_up
from irontree.errors import EnvironmentRefused
from irontree.store.layout import GITIGNORE
from tests.support.repositories import Project, git, head, make_project, write

PLAN, ANSWER = ".mino/plans/00000000.yml", ".mino/forge/issues/0001/comments/0001.md"
ORIGIN = Origin("cli", "ada", "test")


@pytest.fixture
def home(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    set_up(project.root)
    write(project.root / ".mino", **{"config.yml": "agent: {command: agent}\n"})
    return project


def pulled(home: Project, path: str) -> None:
    """Somebody pushes that file, and the user pulls."""
    other = home.root.parent / "other"
    git(home.root.parent, "clone", "--quiet", str(home.remote), str(other))
    (other / path).parent.mkdir(parents=True, exist_ok=True)
    (other / path).write_text("approved\n")
    git(other, "add", "--force", path)
    git(other, "commit", "--quiet", "--message", "docs")
    git(other, "push", "--quiet", "origin", "HEAD:main")
    git(home.root, "pull", "--quiet", "origin", "main")


def opened(home: Project) -> App:
    return open_app(home.root, origin=ORIGIN)


@pytest.mark.parametrize("path", [PLAN, ANSWER, ".mino/events/issue-1/0001-task-published.yml", ".MINO/config.yml"])
def test_nothing_is_read_or_done(home, path):
    pulled(home, path)
    with pytest.raises(EnvironmentRefused, match="whoever can push writes what happened here") as refused:
        opened(home)
    assert path in refused.value.message
    assert "git rm" in refused.value.remedy


@pytest.mark.parametrize("form", [["--index-version=4"], ["--split-index"]], ids=["short names", "split"])
def test_nor_is_it_where_the_index_does_not_spell_its_paths_out(home, form):
    write(home.root, **{".mingle": "its name begins as the folder's\n"})
    git(home.root, "add", ".mingle")
    pulled(home, ".mino/config.d/plan.yml")
    git(home.root, "update-index", *form)
    with pytest.raises(EnvironmentRefused, match="whoever can push"):
        opened(home)


def test_who_was_at_work_before_stops(home):
    """A server has opened the repository long ago."""
    app = opened(home)
    pulled(home, PLAN)
    with pytest.raises(EnvironmentRefused, match="whoever can push"), app.driver.hold("a test"):
        pytest.fail("it goes on")


def test_once_it_is_taken_out_work_goes_on(home):
    pulled(home, PLAN)
    git(home.root, "rm", "--quiet", PLAN)
    opened(home)


def test_settings_are_shared_by_commits(home):
    """What they say is approved anew."""
    assert GITIGNORE.splitlines()[1:] == ["!config.yml", "!.gitignore"]
    git(home.root, "add", "--force", ".mino/.gitignore", ".mino/config.yml")
    git(home.root, "commit", "--quiet", "--message", "Set up irontree")
    opened(home)
    assert head(home.root)
