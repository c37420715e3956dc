"""A branch of a plan's own, which is not there before the first publication, with and without a remote (R5)."""

from __future__ import annotations

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.errors import NoSuchBranch, PublicationRefused
from irontree.ports import Moved, Published, Rewritten, Standing
from tests.support.repositories import PLAIN


@pytest.fixture
def own(project, policy) -> PublishPolicy:
    """A branch of a plan's own, which is not there yet."""
    return policy.on_own_branch("hotl/greeting", project.tip())


def test_work_on_a_branch_that_is_not_there_starts_where_that_is_to_start(project, repository, own):
    start = project.tip()
    project.commit_here("later.txt", "later\n")
    assert repository.base(own) == repository.checkout(own).start == start
    assert repository.standing(own) == Standing()
    assert repository.preflight(own, PLAIN) == ()
    assert (repository.has_published(start, own), repository.fork_point(start, own)) == (False, None)
    assert repository.taken_back((start,), own) == frozenset()


def test_the_first_publication_makes_it_and_the_next_one_moves_it(project, repository, own):
    start = repository.base(own)
    first = project.work(start)
    assert repository.publish(first, own, onto=start) == Published(first)
    assert repository.publish(first, own, onto=start) == Published(first), "after a crash it is there already"
    assert repository.base(own) == first
    second = project.work(first, more="more\n")
    assert repository.publish(second, own, onto=first) == Published(second)
    assert repository.base(own) == second
    assert project.tip() == start, "the user is on another branch, and stays there"


def test_one_that_others_made_meanwhile_is_not_overwritten(project, repository, own):
    sha = project.work(repository.base(own))
    theirs = project.begin_elsewhere(own)
    assert repository.publish(sha, own, onto=own.branch_from) == Moved(theirs)
    assert repository.base(own) == theirs


def test_one_that_was_there_and_was_deleted_is_not_made_again(project, repository, own):
    theirs = project.begin_elsewhere(own)
    assert repository.base(own) == theirs
    sha = project.work(theirs)
    project.delete_branch(own)
    if own.remote:
        assert repository.publish(sha, own, onto=theirs) == Rewritten(theirs, None)
        return
    with pytest.raises(PublicationRefused) as refused:
        repository.publish(sha, own, onto=theirs)
    assert (refused.value.reason, bool(refused.value.remedy)) == ("target-gone", True)


def test_one_that_nobody_says_where_to_start_is_not_made(project, repository, policy):
    nowhere = policy.on_own_branch("hotl/greeting")
    with pytest.raises(NoSuchBranch):
        repository.base(nowhere)
    with pytest.raises(NoSuchBranch):
        repository.base(policy.on_own_branch("hotl/greeting", "0" * 40))
