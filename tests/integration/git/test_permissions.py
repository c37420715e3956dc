"""Permissions that are refused to a user who is not root: told in words, nothing left half done, gone on with later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.errors import EnvironmentRefused
from irontree.ports import Published
from irontree.services.questions.questions import Question
from tests.integration.crash.driver import begin, person
from tests.integration.crash.laboratory import faults, lay_out
from tests.support.nobody import as_nobody, needs_root
from tests.support.repositories import Project, commit, git, head, make_project
from tests.support.soak import in_soak
from tests.support.world import Answer, drive

pytestmark = needs_root


def published(folder: Path) -> Project:
    """A project with a published commit that changes a file in a folder; also imports all that this takes."""
    project = make_project(folder)
    commit(project.root, "sub/deep.txt", "old\n")
    git(project.root, "push", "--quiet", "origin", "main")
    return project


def work(project: Project) -> str:
    workspace = project.run_workspace()
    workspace.prepare(head(project.root))
    (workspace.path / "app.py").write_text("new\n")
    (workspace.path / "sub/deep.txt").write_text("new\n")
    made = workspace.commit("[run] #1: work", base=head(project.root))
    project.repository.keep(made.sha, "refs/irontree/issue-1/2", source=workspace)
    return made.sha


def test_a_checkout_that_cannot_be_written_as_a_whole_is_not_moved_by_half(tmp_path):
    def act(folder: Path) -> None:
        project = published(folder)
        sha, before = work(project), head(project.root)
        (project.root / "sub").chmod(0o555)
        told = project.repository.publish(sha, project.target)
        assert "'sub/deep.txt': Permission denied" in told.warning, told
        assert (head(project.root), git(project.root, "status", "--porcelain")) == (before, "")
        (project.root / "sub").chmod(0o755)
        assert project.repository.publish(sha, project.target) == Published(sha)
        assert (project.root / "sub/deep.txt").read_text() == "new\n"

    published_here = published(tmp_path)
    published_here.repository.publish(work(published_here), published_here.target)
    as_nobody(act)


def test_a_git_folder_that_cannot_be_written_is_named_and_a_backup_that_fails_is_remembered(tmp_path):
    def act(folder: Path) -> None:
        project = published(folder)
        (project.root / ".mino/plans").mkdir(parents=True)
        (project.root / ".mino/plans/a.yml").write_text("x: 1\n")
        (project.root / ".git/refs").chmod(0o555)
        with pytest.raises(EnvironmentRefused, match="unable to create directory for"):
            project.repository.keep(head(project.root), "refs/irontree/issue-1/2")
        project.repository.back_up()
        assert "unable to create directory" in project.repository.backup_failure().reason
        (project.root / ".git/refs").chmod(0o755)
        project.repository.back_up()
        assert project.repository.backup_failure() is None

    published(tmp_path).repository.back_up()
    as_nobody(act)


FAULTS = (".mino/plans", ".mino/events", ".git", ".git/objects", ".git/refs", "../cache", "../remote.git/objects")
"""Folders that cannot be written for a while, by the program's own user."""


@in_soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", FAULTS)
def test_whatever_folder_cannot_be_written_for_a_while_the_work_ends_well(tmp_path, path):
    def act(folder: Path) -> None:
        (folder / "cache").mkdir()
        root = lay_out(folder)
        open_app(root, origin=Origin("ada", "command"))
        (root / path).mkdir(exist_ok=True)
        (root / path).chmod(0o555)
        assert first_end(root) != "goal_reached", "nothing was refused"
        (root / path).chmod(0o755)
        assert live(root) == "goal_reached"
        assert faults(open_app(root, origin=Origin("eve", "command"))) == []

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        assert live(lay_out(tmp_path)) == "goal_reached"
    as_nobody(act)


def first_end(root: Path) -> str:
    """How it ends while that folder cannot be written: with a question, or refused in words."""
    try:
        return live(root)
    except EnvironmentRefused as error:
        return error.message


def live(root: Path) -> str:
    """From the document to the goal, or to what nobody can answer while a folder cannot be written."""
    app = open_app(root, origin=Origin("ada", "command"))
    return drive(app, begin(app).id, somebody(app)).reason


def somebody(app: App):
    """Goes on where a block is put right; that is so where every folder can be written."""
    usual = person(app)

    def answer(question: Question) -> Answer | None:
        if question.rule.reason != "blocked":
            return usual(question)
        root = app.repository.root
        whole = all(os.access(root / path, os.W_OK) for path in FAULTS if (root / path).exists())
        return Answer("go-on", "ada") if whole else None

    return answer
