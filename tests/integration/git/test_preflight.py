"""What stops a run before it starts, each with what to do about it (protocol, phase 3)."""

from __future__ import annotations

import os

import pytest

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.ports import Checkout
from tests.support.repositories import PLAIN, commit, git, write


def checks(project, *, policy=None, workspace=PLAIN) -> list[str]:
    found = project.repository.preflight(policy or project.target, workspace)
    assert all(blocker.message and blocker.remedy for blocker in found)
    return [blocker.check for blocker in found]


def test_a_clean_repository_is_ready(project):
    assert checks(project) == []


def test_our_own_state_and_the_document_are_no_changes(project):
    (project.root / ".mino").mkdir()
    write(project.root / ".mino", **{"config.yml": "version: 1\n"})
    (project.root / "docs").mkdir()
    write(project.root / "docs", **{"SPEC.md": "# Spec\n"})
    git(project.root, "add", "--force", ".mino/config.yml")
    for exempt, found in ((["docs/SPEC.md"], ()), (["docs/"], ()), ([], ("docs/SPEC.md",))):
        assert project.repository.checkout(project.target, exempt=exempt).uncommitted == found


@pytest.mark.parametrize("change", ["rm app.py", "echo x >> app.py", "echo x > app.py\\ ü", "git rm --quiet app.py"])
def test_any_change_that_is_in_no_commit_is_told_and_stops_nothing(project, change):
    """Decision 0021: work starts from commits, in a clone."""
    os.system(f"cd '{project.root}' && {change}")
    (found,) = project.repository.checkout(project.target).uncommitted
    assert found in ("app.py", "app.py ü")
    assert checks(project) == []


def test_the_users_index_is_not_touched_by_looking(project):
    index = project.root / ".git" / "index"
    before = index.stat()
    write(project.root, **{"app.py": "print('hello')\n"})
    assert project.repository.checkout(project.target).uncommitted == ()
    assert index.stat().st_mtime_ns == before.st_mtime_ns


def test_a_detached_head_is_told_and_stops_nothing(project):
    git(project.root, "switch", "--quiet", "--detach")
    assert project.repository.checkout(project.target) == Checkout(project.tip(), detached=True)
    assert checks(project) == []


def test_an_empty_branch_is_no_empty_repository(project):
    git(project.root, "switch", "--quiet", "--orphan", "pages")
    assert checks(project) == []
    assert not project.repository.checkout(project.target).detached


def test_a_repository_without_a_commit(project, tmp_path):
    git(tmp_path, "init", "--quiet", "fresh")
    repository = project.opened(tmp_path / "fresh")
    found = repository.preflight(PublishPolicy(remote=None, target_branch="main"), PLAIN)
    assert [blocker.check for blocker in found] == ["no-commits", "target-branch-missing"]


def test_nobody_who_commits(project, tmp_path):
    write(tmp_path, nobody="")
    found = project.opened(GIT_CONFIG_GLOBAL=str(tmp_path / "nobody")).preflight(project.target, PLAIN)
    assert [blocker.check for blocker in found] == ["missing-identity"]
    assert "user.email" in found[0].message


def test_a_remote_or_a_target_that_is_not_there(project):
    assert checks(project, policy=PublishPolicy(remote="upstream", target_branch="main")) == ["remote-missing"]
    assert checks(project, policy=PublishPolicy(remote="origin", target_branch="gone")) == ["target-branch-missing"]
    assert checks(project, policy=PublishPolicy(remote=None, target_branch="gone")) == ["target-branch-missing"]


def test_a_target_that_is_known_from_the_remote_alone_is_there(project):
    git(project.root, "switch", "--quiet", "--create", "feature")
    git(project.root, "branch", "--quiet", "-D", "main")
    assert checks(project) == []


def test_hooks_that_a_clone_would_not_have(project):
    git(project.root, "config", "core.hooksPath", ".husky/_")
    assert checks(project) == ["hooks-missing"]
    assert checks(project, workspace=WorkspacePolicy(setup=("npx husky",))) == []
    commit(project.root, ".husky/_/pre-commit", "exit 0\n")
    git(project.root, "push", "--quiet")
    assert checks(project) == []


def test_hooks_outside_of_the_repository_are_there_for_a_clone_too(project, tmp_path):
    git(project.root, "config", "core.hooksPath", str(tmp_path / "hooks"))
    assert checks(project) == []


def test_submodules_that_nobody_brings_in(project, tmp_path):
    commit(project.root, ".gitmodules", '[submodule "lib"]\n\tpath = lib\n\turl = ../lib\n')
    git(project.root, "push", "--quiet")
    assert checks(project) == ["submodules"]
    assert checks(project, workspace=WorkspacePolicy(setup=("git submodule update --init",))) == []


def test_large_files_without_the_program_for_them(project):
    commit(project.root, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(project.root, "push", "--quiet")
    assert checks(project) == ["lfs-missing"]
    git(project.root, "config", "filter.lfs.process", "git-lfs filter-process")
    assert checks(project) == ["lfs-missing"], "it runs only where the approval names it"
    assert checks(project, workspace=WorkspacePolicy(filters=("lfs",))) == []


def test_ordinary_attributes_are_no_large_files(project):
    commit(project.root, ".gitattributes", "*.sh text eol=lf\n")
    git(project.root, "push", "--quiet")
    assert checks(project) == []


def test_a_partial_clone(project, tmp_path):
    git(project.remote, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{project.remote}", "partial")
    found = project.opened(tmp_path / "partial").preflight(project.target, PLAIN)
    assert [blocker.check for blocker in found] == ["partial-clone"]


def test_all_that_is_wrong_is_said_at_once(project, tmp_path):
    write(tmp_path, nobody="")
    repository = project.opened(GIT_CONFIG_GLOBAL=str(tmp_path / "nobody"))
    found = repository.preflight(PublishPolicy(remote="origin", target_branch="gone"), PLAIN)
    assert [blocker.check for blocker in found] == ["missing-identity", "target-branch-missing"]
