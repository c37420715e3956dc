"""What is read goes through GitPython: whose children are ours, and what it can be shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from irontree.errors import EnvironmentRefused, GitFailed
from irontree.processes.children import ChildProcesses
from tests.support.processes import PATIENCE_SECONDS, MemoryRegistry
from tests.support.repositories import PLAIN, commit, git, head

DRIVER = """
import os, sys, time
from pathlib import Path
from irontree.processes.children import ChildProcesses
from irontree.repository import open_repository
from tests.support.processes import MemoryRegistry

registry = MemoryRegistry()
cache = Path(sys.argv[2])
repository = open_repository(Path(sys.argv[1]), ChildProcesses(registry), cache, cache, os.environ)
with repository.git.use():
    repository.git.repo.find("HEAD")
    repository.git.repo.content("HEAD:app.py")
    print(*registry.children, flush=True)
    time.sleep(1000)
"""


def registry(project) -> MemoryRegistry:
    return project.children._registry


# --- its children


def test_one_child_answers_all_of_a_use_in_the_runners_environment_and_ends_with_it(project):
    repository = project.opened(GIT_DIR="/nowhere", PREFECT_API_KEY="k")
    before = len(registry(project).history)
    with repository.git.use():
        for name in ("HEAD", "refs/heads/main", "refs/heads/none", f"{project.tip()}^{{tree}}"):
            repository.read_ref(name)
        [child] = registry(project).recorded()
        environment = psutil.Process(child.pid).environ()
        with repository.git.use():
            repository.read_ref("HEAD")
        assert registry(project).recorded() == (child,)
    assert len(registry(project).history) == before + 1
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert not {"GIT_DIR", "PREFECT_API_KEY"} & environment.keys()
    assert not registry(project).recorded()
    assert not psutil.pid_exists(child.pid)


def test_a_use_that_fails_leaves_no_child(project):
    repository = project.repository

    def step() -> None:
        with repository.git.use():
            repository.read_ref("HEAD")
            raise RuntimeError("a step")

    with pytest.raises(RuntimeError):
        step()
    assert not psutil.pid_exists(registry(project).history[-1].pid)


def test_outside_of_a_use_nothing_is_left_running_or_recorded(project):
    repository = project.repository
    before = len(registry(project).history)
    assert repository.read_ref("HEAD") == project.tip()
    assert repository.committed("app.py") == b"print('hello')\n"
    assert len(registry(project).history) == before


def test_another_thread_has_a_use_of_its_own(project):
    repository, seen = project.repository, []
    with repository.git.use():
        mine = repository.git.repo
        other = threading.Thread(target=lambda: seen.append((repository.git.repo, repository.read_ref("HEAD"))))
        other.start()
        other.join()
        assert repository.git.repo is mine
    assert seen[0][0] is not mine
    assert seen[0][1] == project.tip()


def test_it_sees_what_was_fetched_and_moved_meanwhile(project):
    repository = project.repository
    with repository.git.use():
        assert repository.base(project.target) == project.tip()
        moved = project.push_from_elsewhere()
        assert repository.base(project.target) == moved
        made = project.commit_here("new.txt", "x\n")
        git(project.root, "gc", "--quiet")
        assert repository.read_ref("refs/heads/main") == made


def test_a_child_that_was_killed_is_replaced_and_asked_the_same(project):
    repository = project.repository
    with repository.git.use():
        repository.read_ref("HEAD")
        os.kill(registry(project).recorded()[0].pid, signal.SIGKILL)
        assert repository.read_ref("HEAD") == project.tip()
    assert not registry(project).recorded()


def test_a_child_that_does_not_answer_is_not_waited_for_without_end_and_is_killed(tmp_path):
    children = ChildProcesses(MemoryRegistry(), grace_seconds=0.1)
    script = ["sh", "-c", "sleep 1000"]
    with children.answering(script, cwd=tmp_path, environment=dict(os.environ), seconds=0.1) as process:
        with pytest.raises(EnvironmentRefused, match="did not answer"):
            process.stdout.readline()
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL


def test_a_killed_driver_leaves_no_child_behind(project, tmp_path):
    words = [sys.executable, "-c", DRIVER, str(project.root), str(tmp_path)]
    driver = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    try:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        children = [psutil.Process(pid) for pid in pids]
        assert len(children) == 2
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_SECONDS)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


def test_nothing_that_the_caller_sets_for_gitpython_or_for_another_repository_counts(project, tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from tests.support.processes import children; "
        "from irontree.repository import open_repository; "
        "cache = Path(sys.argv[2]); "
        "repository = open_repository(Path(sys.argv[1]), children(), cache, cache, os.environ); "
        "print(repository.read_ref('HEAD'), repository.git.repo.stands_at('refs/heads/main'))"
    )
    theirs = {
        "GIT_PYTHON_REFRESH": "nonsense",
        "GIT_PYTHON_GIT_EXECUTABLE": "/no/git",
        "GIT_PYTHON_TRACE": "full",
        "GIT_DIR": "/nowhere",
        "GIT_COMMON_DIR": "/nowhere",
        "GIT_OBJECT_DIRECTORY": "/nowhere",
    }
    words = [sys.executable, "-c", code, str(project.root), str(tmp_path)]
    done = subprocess.run(words, env={**os.environ, **theirs}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{project.tip()} True\n"
    assert done.stderr == ""


def test_a_git_that_is_killed_does_not_keep_the_library_from_being_imported(tmp_path):
    """It asks git for its version while it is imported, unless it finds none."""
    dying = tmp_path / "git"
    dying.write_text("#!/bin/sh\nkill -KILL $$\n", encoding="utf-8")
    dying.chmod(0o755)
    first = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    words = [sys.executable, "-c", "import irontree.repository.reading"]
    done = subprocess.run(words, env=first, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- the repositories that it is shown


def linked(root: Path) -> Path:
    git(root, "worktree", "add", "--quiet", "-b", "side", "../linked")
    git(root, "config", "core.bare", "true")
    git(root, "config", "irontree.dir", str(root.parent / "linked"))
    return root.parent / "linked"


def borrowing(root: Path) -> Path:
    git(root.parent, "clone", "--quiet", "--shared", str(root), "borrowing")
    return root.parent / "borrowing"


def with_a_name_that_is_no_text(root: Path) -> Path:
    """A branch in the file of packed refs, which GitPython itself reads as UTF-8."""
    subprocess.run([b"git", b"branch", b"caf\xe9"], cwd=root, check=True)
    git(root, "pack-refs", "--all")
    return root


@pytest.mark.parametrize("shape", [lambda root: root, linked, borrowing, with_a_name_that_is_no_text])
@pytest.mark.parametrize("kept", [True, False])
def test_it_reads_a_repository_of_every_shape(project, shape, kept):
    repository = project.opened(shape(project.root))
    tip = head(repository.root)

    def look() -> None:
        branch = f"refs/heads/{repository.current_branch()}"
        assert (repository.read_ref("HEAD"), repository.read_ref(branch)) == (tip, tip)
        assert repository.git.repo.stands_at(branch)
        assert repository.read_ref("refs/heads/none") is None
        assert repository.document_at(tip, "APP.PY").path == "app.py"
        assert repository.lacking((tip, "0" * 40)) == {"0" * 40}
        assert repository.committed("none") is None

    if not kept:
        look()
        return
    with repository.git.use():
        look()


@pytest.mark.parametrize("kept", [True, False])
def test_it_reads_objects_by_sha256(project, tmp_path, kept):
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main", "modern")
    first = commit(tmp_path / "modern", "docs/a.txt", "a\n")
    second = commit(tmp_path / "modern", "docs/a.txt", "b\n")
    repository = project.opened(tmp_path / "modern")

    def look() -> None:
        assert repository.preflight(project.local_target, PLAIN) == ()
        assert repository.read_ref("refs/heads/main") == second
        assert repository.document_at(first, "docs/A.txt").text == "a\n"
        assert repository.changed_files(first, second) == ("docs/a.txt",)
        assert repository.merge_of(first, "main") == (first, None)
        assert repository.lacking((first, "0" * 64)) == {"0" * 64}

    if not kept:
        look()
        return
    with repository.git.use():
        look()


def test_it_reads_a_repository_without_a_commit(project, tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "new")
    repository = project.opened(tmp_path / "new")
    with repository.git.use():
        assert (repository.read_ref("HEAD"), repository.current_branch()) == (None, "main")
        assert repository.committed("a.txt") is None
        assert [blocker.check for blocker in repository.preflight(project.local_target, PLAIN)] == [
            *("no-commits", "target-branch-missing"),
        ]


def test_paths_that_are_no_text_are_shown_with_a_mark(project):
    before = project.tip()
    (Path(os.fsdecode(bytes(project.root) + b"/caf\xe9"))).write_text("x\n")
    git(project.root, "add", "--all")
    git(project.root, "commit", "--quiet", "--message=odd")
    assert project.repository.changed_files(before, project.tip()) == ("caf\ufffd",)


@pytest.mark.parametrize("name", ["a\nHEAD", "caf\udce9", "", "HEAD:../outside", "two words"])
def test_a_name_that_can_be_none_is_none_or_refused_and_never_answers_the_next_question(project, name):
    repository = project.repository
    with repository.git.use():
        try:
            assert repository.git.repo.find(name) is None
        except GitFailed:
            assert name in {"", "HEAD:../outside"}
        assert repository.read_ref("HEAD") == project.tip()


def test_a_hooks_folder_outside_of_the_repository_is_no_part_of_it(project):
    git(project.root, "config", "core.hooksPath", "../hooks")
    assert [blocker.check for blocker in project.repository.preflight(project.target, PLAIN)] == ["hooks-missing"]


def test_a_workspace_has_the_users_tags_and_neither_his_branches_nor_a_remote(project):
    git(project.root, "tag", "v1")
    git(project.root, "tag", "--annotate", "--message=two", "v2")
    workspace = project.run_workspace()
    workspace.prepare(project.tip())
    refs = git(workspace.path, "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/tags/v1", "refs/tags/v2"]
    assert git(workspace.path, "remote") == ""
    assert git(workspace.path, "describe") == "v2"
    assert not list((workspace.path / ".git" / "objects").rglob("*.pack"))


# --- where HEAD is, without asking git


def test_head_is_read_as_it_stands_a_branch_or_a_commit(project):
    reader = project.repository.git.repo
    assert reader.stands_at("refs/heads/main")
    assert not reader.stands_at("refs/heads/mai")
    git(project.root, "switch", "--quiet", "--detach")
    assert reader.stands_at(project.tip())


@pytest.mark.timeout(30)
def test_a_pipe_in_place_of_head_does_not_block(project):
    reader, place = project.repository.git.repo, project.root / ".git" / "HEAD"
    place.unlink()
    os.mkfifo(place)
    assert not reader.stands_at("refs/heads/main")
    with os.fdopen(os.open(place, os.O_RDWR)):  # one that is held open, and never written to
        assert not reader.stands_at("refs/heads/main")
