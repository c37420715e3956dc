"""How a commit came into a branch, asked of real git: the local forge takes a merge for an acceptance."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.repository import GitRepository
from tests.support.repositories import Project, commit, git, head


@pytest.fixture
def repository(project: Project) -> GitRepository:
    git(project.root, "switch", "--quiet", "--create", "feature")
    commit(project.root, "a.txt", "a")
    git(project.root, "switch", "--quiet", "main")
    return project.repository


def tip(repository: GitRepository) -> str:
    found = repository.tip("feature")
    assert found
    return found


def test_a_branch_that_was_not_merged_is_in_nothing(repository: GitRepository):
    assert repository.merge_of(tip(repository), "main") is None


def test_a_merge_is_named_with_who_made_it(repository: GitRepository):
    commit(repository.root, "b.txt", "b")
    git(repository.root, "merge", "--quiet", "--no-edit", "feature")
    merge = head(repository.root)
    commit(repository.root, "c.txt", "c")
    assert repository.merge_of(tip(repository), "main") == (merge, git(repository.root, "config", "user.name"))


def test_a_fast_forward_is_the_commit_itself_by_nobody(repository: GitRepository):
    git(repository.root, "merge", "--quiet", "--ff-only", "feature")
    assert repository.merge_of(tip(repository), "main") == (tip(repository), None)
    commit(repository.root, "c.txt", "c")
    assert repository.merge_of(tip(repository), "main") == (tip(repository), None)


def test_a_merge_that_only_the_remote_has_counts_once_it_was_fetched(repository: GitRepository):
    git(repository.root, "push", "--quiet", "origin", "feature:main")
    git(repository.root, "fetch", "--quiet", "origin")
    assert repository.merge_of(tip(repository), "main") == (tip(repository), None)


def test_a_branch_that_only_the_remote_has_is_found(repository: GitRepository):
    sha = tip(repository)
    git(repository.root, "push", "--quiet", "origin", "feature")
    git(repository.root, "branch", "--quiet", "-D", "feature")
    assert repository.tip("feature") == sha
    assert repository.tip("never") is None


def test_the_address_of_a_remote_is_as_git_uses_it(repository: GitRepository, tmp_path: Path):
    git(repository.root, "remote", "add", "web", "gh:ada/engine")
    git(repository.root, "config", "url.https://github.com/.insteadOf", "gh:")
    assert repository.remote_url("web") == "https://github.com/ada/engine"
    assert repository.remote_url("none") is None
