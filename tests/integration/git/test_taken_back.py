"""Work that was pushed before a crash and taken back since: it is a question, and is not published again (R5)."""

from __future__ import annotations

import pytest

from irontree.ports import Published, Rewritten
from tests.support.repositories import git, head


@pytest.fixture
def pushed(project) -> tuple[str, str]:
    """The tip before, and a commit that was pushed, without an event that says so."""
    before, sha = head(project.root), project.work()
    assert project.repository.publish(sha, project.target, onto=before) == Published(sha)
    return before, sha


def force(project, sha: str) -> None:
    git(project.remote, "update-ref", "refs/heads/main", sha)


@pytest.mark.parametrize("fetched", [False, True], ids=["not seen", "seen"])
def test_work_that_was_taken_back_is_not_published_again(project, pushed, fetched):
    before, sha = pushed
    force(project, before)
    if fetched:  # as for another task
        assert project.repository.base(project.target) == before
    assert project.repository.publish(sha, project.target, onto=before) == Rewritten(sha, before)
    assert project.repository.publish(sha, project.target, onto=before) == Rewritten(sha, before), "however often"
    assert head(project.remote, "main") == before


def test_work_that_was_taken_back_is_not_merged_with_what_stands_there_instead(project, pushed):
    before, sha = pushed
    force(project, before)
    theirs = project.push_from_elsewhere()
    assert project.repository.publish(sha, project.target, onto=before) == Rewritten(sha, theirs)


def test_work_whose_branch_was_deleted_waits_for_a_word(project, pushed):
    before, sha = pushed
    git(project.remote, "update-ref", "-d", "refs/heads/main")
    assert project.repository.publish(sha, project.target, onto=before) == Rewritten(sha, None)
    git(project.root, "fetch", "--quiet", "--prune", "origin")
    assert project.repository.publish(sha, project.target, onto=before) == Published(sha)


def test_work_that_is_still_there_below_others_is_published(project, pushed):
    before, sha = pushed
    theirs = project.push_from_elsewhere()
    assert project.repository.publish(sha, project.target, onto=before) == Published(sha)
    assert head(project.remote, "main") == theirs
