"""The branch of a plan's own, which the first publication makes: whoever is killed, and whatever is in the way (R5)."""

from __future__ import annotations

import os
import signal
import time

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.errors import PublicationRefused
from irontree.ports import Published
from tests.support.repositories import PLAIN, commit, git, head, hook

NAME = "hotl/greeting"


@pytest.fixture(params=["remote", "no remote"])
def own(request, project) -> PublishPolicy:
    target = project.target if request.param == "remote" else project.local_target
    return target.on_own_branch(NAME, head(project.root))


def publish(project, own, sha):
    return project.repository.publish(sha, own, onto=own.branch_from)


def published_at(project, own) -> str:
    return git(project.remote if own.remote else project.root, "rev-parse", "--verify", f"refs/heads/{NAME}")


def in_a_process_that_is_killed(project, own, sha) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.environ["VICTIM"] = str(os.getpid())
            publish(project, own, sha)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    while project.repository.locks._is_worked_in():  # git dies a moment after its parent
        time.sleep(0.01)


@pytest.mark.parametrize("point", ["prepared", "committed"])
def test_killed_while_the_branch_is_made_here_it_is_made_once(project, point):
    """Behind the lock of the branch, and behind the branch; the next driver removes the lock."""
    own = project.local_target.on_own_branch(NAME, head(project.root))
    sha, death = project.work(), project.root.parent / "die"
    death.touch()
    kill = f"[ -e '{death}' ] && rm '{death}' && kill -9 $VICTIM $PPID"
    hook(
        project.root / ".git/hooks", "reference-transaction", f'[ "$1" = {point} ] && grep -q {NAME} && {kill}; exit 0'
    )
    in_a_process_that_is_killed(project, own, sha)
    with project.repository.driven():
        assert publish(project, own, sha) == Published(sha)
    assert published_at(project, own) == sha
    assert [*(project.root / ".git").rglob("*.lock")] == []
    assert head(project.root, "main") == own.branch_from


@pytest.mark.parametrize("point", ["pre-receive", "post-receive"])
def test_killed_while_the_branch_is_pushed_it_is_made_once(project, point, tmp_path):
    """Before the remote has it, and when it has it and its answer is lost."""
    own = project.target.on_own_branch(NAME, head(project.root))
    sha, pushes = project.work(), tmp_path / "pushes"
    hook(project.remote / "hooks", "post-receive", f"echo once >> '{pushes}'")
    death = tmp_path / "die"
    death.touch()
    last = f"echo once >> '{pushes}'; " if point == "post-receive" else ""
    hook(project.remote / "hooks", point, f"{last}[ -e '{death}' ] && rm '{death}' && kill -9 $VICTIM $PPID; exit 0")
    in_a_process_that_is_killed(project, own, sha)
    with project.repository.driven():
        assert publish(project, own, sha) == Published(sha)
    assert published_at(project, own) == sha
    assert pushes.read_text().count("once") == 1


def test_a_checkout_of_the_users_that_is_put_on_it_follows(project, own):
    git(project.root, "switch", "--quiet", "--create", NAME)
    sha = project.work()
    assert publish(project, own, sha) == Published(sha)
    assert (head(project.root), git(project.root, "status", "--porcelain")) == (sha, "")
    assert head(project.root, "main") == own.branch_from


def test_a_branch_that_has_its_name_as_a_folder_is_in_the_way(project, own):
    git(project.remote if own.remote else project.root, "branch", "hotl", "main")
    with pytest.raises(PublicationRefused) as refused:
        publish(project, own, project.work())
    assert (refused.value.reason, "rename or delete" in refused.value.remedy) == ("branch-name-taken", True)


def test_a_checkout_that_is_on_it_before_it_has_a_commit_is_left_alone(project):
    """Git would say that all files of the commit were deleted there."""
    own = project.local_target.on_own_branch(NAME, head(project.root))
    sha = project.work()
    git(project.root, "switch", "--quiet", "--orphan", NAME)
    with pytest.raises(PublicationRefused) as refused:
        publish(project, own, sha)
    assert refused.value.reason == "checkout-not-clean"
    git(project.root, "switch", "--quiet", "main")
    assert publish(project, own, sha) == Published(sha)


def test_a_commit_to_start_from_that_is_not_here_blocks_with_what_to_do(project, own):
    lost = own.model_copy(update={"branch_from": "1" * 40})
    [found] = project.repository.preflight(lost, PLAIN)
    assert found.check == "target-branch-missing"
    assert "111111111111" in found.message


def test_what_the_first_commit_holds_is_what_is_looked_at_before_a_run(project, own):
    start = commit(project.root, ".gitmodules", '[submodule "x"]\n')
    found = project.repository.preflight(own.model_copy(update={"branch_from": start}), PLAIN)
    assert [each.check for each in found] == ["submodules"]
