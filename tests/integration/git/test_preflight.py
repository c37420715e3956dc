"""What stops a run before it starts, each with what to do about it (protocol, phase 3)."""

from __future__ import annotations

import os

import pytest

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from tests.support.repositories import PLAIN, commit, git, write


def checks(project, *, policy=None, workspace=PLAIN, exempt=()) -> list[str]:
    found = project.repository.preflight(policy or project.target, workspace, exempt=exempt)
    assert all(blocker.message and blocker.remedy for blocker in found)
    return [blocker.check for blocker in found]


def test_a_clean_repository_is_ready(project):
    assert checks(project) == []


def test_our_own_state_and_the_document_are_no_dirt(project):
    (project.root / ".mino").mkdir()
    write(project.root / ".mino", **{"config.yml": "version: 1\n"})
    (project.root / "docs").mkdir()
    write(project.root / "docs", **{"SPEC.md": "# Spec\n"})
    git(project.root, "add", "--force", ".mino/config.yml")
    assert checks(project, exempt=["docs/SPEC.md"]) == []
    assert checks(project, exempt=["docs/"]) == []
    assert checks(project) == ["dirty-working-tree"]


@pytest.mark.parametrize("dirt", ["rm app.py", "echo x >> app.py", "echo x > new", "git rm --quiet app.py"])
def test_any_change_that_is_in_no_commit_is_dirt(project, dirt):
    os.system(f"cd '{project.root}' && {dirt}")
    assert checks(project) == ["dirty-working-tree"]


def test_the_paths_are_named_and_not_all_of_many(project):
    write(project.root, **{f"new {n} ü.txt": "x" for n in range(8)})
    (blocker,) = project.repository.preflight(project.target, PLAIN)
    assert "new 0 ü.txt, new 1 ü.txt" in blocker.message
    assert "and 3 more" in blocker.message


def test_the_users_index_is_not_touched_by_looking(project):
    index = project.root / ".git" / "index"
    before = index.stat()
    write(project.root, **{"app.py": "print('hello')\n"})
    checks(project)
    assert index.stat().st_mtime_ns == before.st_mtime_ns


def test_a_detached_head(project):
    git(project.root, "switch", "--quiet", "--detach")
    assert checks(project) == ["detached-head"]


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
    assert checks(project) == []


def test_ordinary_attributes_are_no_large_files(project):
    commit(project.root, ".gitattributes", "*.sh text eol=lf\n")
    git(project.root, "push", "--quiet")
    assert checks(project) == []


def test_a_partial_clone(project, tmp_path):
    git(project.remote, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{project.remote}", "partial")
    found = project.opened(tmp_path / "partial").preflight(project.target, PLAIN)
    assert [blocker.check for blocker in found] == ["partial-clone"]


def test_all_that_is_wrong_is_said_at_once(project):
    write(project.root, new="x")
    git(project.root, "switch", "--quiet", "--detach")
    policy = PublishPolicy(remote="origin", target_branch="gone")
    assert checks(project, policy=policy) == ["detached-head", "dirty-working-tree", "target-branch-missing"]
