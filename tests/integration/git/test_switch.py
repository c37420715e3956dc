"""The user's checkout is put on a workflow's branch: no file of it changes, and a kill anywhere is made good (R5)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from irontree.domain.workflow.checkout import Checkout
from tests.support.processes import Heard
from tests.support.repositories import Project, commit, git, head, hook, write

NAME = "hotl/greeting"
REF = f"refs/heads/{NAME}"


def stands_on(project: Project) -> str:
    return git(project.root, "symbolic-ref", "--quiet", "HEAD")


def left_over(project: Project) -> list[str]:
    folder = project.root / ".git"
    return [path.name for path in (*folder.rglob("*.lock"), *folder.glob("irontree/*.json"))]


def test_it_stands_on_the_new_branch_and_what_is_in_no_commit_stays(project):
    write(project.root, **{"app.py": "mine\n", "notes.txt": "mine\n"})
    git(project.root, "add", "app.py")
    before, start = git(project.root, "status", "--porcelain"), head(project.root)
    assert project.repository.switch(NAME, start) is None
    assert (stands_on(project), head(project.root, NAME)) == (REF, start)
    assert git(project.root, "status", "--porcelain") == before
    assert project.repository.switch(NAME, start) is None, "once is enough"
    assert left_over(project) == []


def test_a_branch_that_is_there_at_the_same_commit_is_taken(project):
    git(project.root, "branch", NAME)
    assert project.repository.switch(NAME, head(project.root)) is None
    assert stands_on(project) == REF


def test_one_that_is_there_at_another_commit_is_told(project):
    start = head(project.root)
    commit(project.root, "later.txt", "later\n")
    git(project.root, "branch", NAME)
    git(project.root, "reset", "--quiet", "--hard", start)
    assert f"there is a branch {NAME} already" in str(project.repository.switch(NAME, start))
    assert stands_on(project) == "refs/heads/main"


def test_what_git_is_in_the_middle_of_is_left_as_it_is(project):
    subprocess.run(["git", "bisect", "start"], cwd=project.root, capture_output=True, check=True)
    assert "a bisect is under way" in str(project.repository.switch(NAME, head(project.root)))
    assert stands_on(project) == "refs/heads/main"


def test_a_hook_that_refuses_the_branch_is_heard(project):
    hook(project.root / ".git/hooks", "reference-transaction", "echo 'no new branches here' >&2; exit 1")
    assert project.repository.switch(NAME, head(project.root)) is not None
    assert stands_on(project) == "refs/heads/main"
    assert left_over(project) == []


# --- killed


def kill_at(project: Project, point: str) -> None:
    """Have git and the process that switches killed there, once."""
    death = project.root.parent / "die"
    death.touch()
    kill = f"[ -e '{death}' ] && rm '{death}' && kill -9 $VICTIM $PPID"
    hooks = project.root / ".git" / "hooks"
    if point == "index":
        hook(hooks, "post-index-change", f"{kill}; exit 0")
    else:
        hook(hooks, "reference-transaction", f'[ "$1" = {point} ] && grep -q {NAME} && {kill}; exit 0')


def switch_and_die(project: Project, start: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.environ["VICTIM"] = str(os.getpid())
            project.repository.switch(NAME, start)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    while project.repository.locks._is_worked_in():  # git dies a moment after its parent
        time.sleep(0.01)


def next_driver(project: Project) -> Heard:
    found, heard = project.repository, Heard()
    locks = replace(found.locks, note=heard.note)
    with replace(found, locks=locks, git=replace(found.git, locks=locks)).driven():
        pass
    return heard


POINTS = ("prepared", "committed", "index")
"""With the branch locked, behind the branch, and behind the index, which git writes before HEAD."""


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_driver_finishes_it(project, point):
    start = head(project.root)
    write(project.root, **{"app.py": "mine\n"})
    kill_at(project, point)
    switch_and_die(project, start)
    next_driver(project)
    assert (stands_on(project), head(project.root, NAME), head(project.root, "main")) == (REF, start, start)
    assert git(project.root, "status", "--porcelain") == "M app.py"
    assert left_over(project) == []


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_gone_on_with_the_checkout_is_the_users(project, point):
    start = head(project.root)
    kill_at(project, point)
    switch_and_die(project, start)
    for lock in (project.root / ".git").rglob("*.lock"):
        lock.unlink()
    mine = commit(project.root, "mine.txt", "mine\n")
    where = stands_on(project)
    next_driver(project)
    assert (stands_on(project), head(project.root)) == (where, mine)
    assert left_over(project) == []


# --- what it is decided by


def test_it_tells_where_the_user_is_and_which_branches_there_are(project):
    git(project.remote, "branch", "theirs", "main")
    git(project.root, "fetch", "--quiet")
    (project.root / ".mino").mkdir()
    write(project.root, **{".mino/config.yml": "x\n", "mine.txt": "mine\n"})
    top = str(project.root.resolve())
    found = project.repository.user_checkout("origin")
    assert (found.top, found.head, found.branch) == (top, head(project.root), "main")
    assert found.branches == {"main", "theirs"}
    assert found.dirty == ("mine.txt",)
    assert project.repository.user_checkout(None).branches == {"main"}


def test_of_a_repository_without_a_commit_it_tells_no_more(project):
    git(project.root, "switch", "--quiet", "--orphan", "empty")
    found = project.repository.user_checkout("origin")
    assert found == Checkout(found.folder, found.top, branch="empty")
