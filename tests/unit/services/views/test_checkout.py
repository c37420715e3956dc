"""What people are told of their own checkout (decision 0021)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.ports import Checkout, Standing
from irontree.repository.memory import MemoryRepository
from irontree.services.views.checkout import lagging, not_part_of_work, targets, unpushed
from tests.support.world import ONE_TASK, Scene

TIP = "1234abc" + "0" * 33
THERE = PublishPolicy(remote="origin", target_branch="main")
HERE = PublishPolicy(remote=None, target_branch="trunk")


@dataclass(slots=True)
class AnyCheckout(MemoryRepository):
    """A checkout in any state."""

    here: Checkout = field(default_factory=lambda: Checkout(TIP))
    stands: Standing = field(default_factory=Standing)

    def checkout(self, policy, *, exempt=()):
        return self.here._replace(uncommitted=tuple(path for path in self.here.uncommitted if path not in exempt))

    def standing(self, policy):
        return self.stands if policy.remote else Standing()


@pytest.fixture
def repository(scene: Scene) -> AnyCheckout:
    scene.repository = AnyCheckout(scene.root, scene.cache)
    return scene.repository


def test_a_clean_checkout_is_not_spoken_of(scene, repository):
    assert not_part_of_work(scene.app, THERE, ()) == ()
    repository.here = Checkout(TIP, uncommitted=("SPEC.md",))
    assert not_part_of_work(scene.app, THERE, ("SPEC.md",)) == (), "it is what is approved"


def test_what_is_in_no_commit_is_named_with_the_commit_that_work_starts_from(scene, repository):
    repository.here = Checkout(TIP, uncommitted=tuple(f"{name}.py" for name in "abcdefg"))
    (said,) = not_part_of_work(scene.app, THERE, ())
    assert said == (
        "Not part of this work: changes in no commit: a.py, b.py, c.py, d.py, e.py and 2 more. "
        "Work starts from commit 1234abc of origin/main."
    )


def test_a_detached_head_is_named_too(scene, repository):
    repository.here = Checkout(TIP, detached=True)
    assert not_part_of_work(scene.app, HERE, ()) == (
        "Your checkout is on no branch (detached HEAD). Work starts from commit 1234abc of trunk.",
    )
    repository.here = Checkout(None, detached=True, uncommitted=("a.py",))
    assert not_part_of_work(scene.app, HERE, ()) == (
        "Not part of this work: changes in no commit: a.py.",
        "Your checkout is on no branch (detached HEAD).",
    )


@pytest.mark.parametrize(("ahead", "said"), [(1, "1 commit is on"), (3, "3 commits are on")])
def test_commits_that_only_the_user_has_are_counted(scene, repository, ahead, said):
    repository.stands = Standing(ahead)
    assert unpushed(scene.app, THERE)[0].startswith(f"{said} your own main and not on origin")
    assert unpushed(scene.app, HERE) == ()


def test_a_branch_that_lacks_commits_is_told_with_what_is_in_the_way_and_what_to_do(scene, repository):
    assert list(lagging(scene.app, targets(scene.world))) == []
    scene.publish(ONE_TASK)
    assert list(lagging(scene.app, targets(scene.world))) == []
    repository.stands = Standing(0, 6, "", "`git pull`")
    assert list(lagging(scene.app, targets(scene.world))) == [
        ("your own main is 6 commits behind origin/main", "`git pull`")
    ]
    repository.stands = Standing(0, 1, "changes in no commit: a.py", "commit or stash them, then `git pull`")
    assert list(lagging(scene.app, targets(scene.world))) == [
        (
            "your own main is 1 commit behind origin/main and cannot follow: changes in no commit: a.py",
            "commit or stash them, then `git pull`",
        )
    ]
