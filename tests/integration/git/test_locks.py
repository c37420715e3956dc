"""Locks that a killed git left in the user's repository, and git that is asked again (R3, R12)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from irontree.errors import GitFailed, RemoteUnavailable
from irontree.files import open_lock, take_lock
from irontree.repository.locks import _takes_no_locks
from tests.support.processes import Heard
from tests.support.repositories import git, head, hook

KEPT = "refs/irontree/issue-1/2"
LEFT = {
    "config": "config.lock",
    "fetch": "refs/remotes/origin/main.lock",
    "update-ref": "packed-refs.lock",
    "merge": "index.lock",
}
"""A command of ours, and a lock that it leaves when it is killed."""


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def repository(project, heard):
    found = project.repository
    locks = replace(found.locks, note=heard.note)
    return replace(found, locks=locks, git=replace(found.git, locks=locks))


@pytest.fixture
def lock(project):
    """Leaves a lock file at that place."""

    def leave(path):
        made = project.root / ".git" / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
        return made

    return leave


def note(project, command, *, since=0.0):
    """What a driver that is dead had written down before it gave that command."""
    path = project.root / ".git/irontree/1-1.json"
    path.parent.mkdir(exist_ok=True)
    about = {"command": command, "git_dir": str(project.root / ".git"), "since": time.time() + since}
    path.write_text(json.dumps(about))
    return path


def settle(repository):
    with repository.driven():
        pass


@pytest.mark.parametrize(("command", "path"), LEFT.items())
def test_what_a_dead_command_of_ours_locked_is_removed_and_said(project, repository, lock, heard, command, path):
    left, written = lock(path), note(project, command)
    settle(repository)
    assert not left.exists()
    assert not written.exists()
    assert [str(left) in line and "was killed" in line for line in heard.lines] == [True]


@pytest.mark.parametrize(("since", "stays"), [(0.0, False), (60, True)])
def test_half_written_objects_of_a_dead_command_of_ours_are_removed(project, repository, lock, since, stays):
    left = [lock("objects/29/tmp_obj_eHshkS"), lock("objects/pack/tmp_pack_eHshkS")]
    note(project, "add", since=since)
    settle(repository)
    assert [path.exists() for path in left] == [stays, stays]


@pytest.mark.parametrize(
    ("command", "path", "since"),
    [("fetch", "index.lock", 0.0), ("fetch", "config.lock", 0.0), ("merge", "index.lock", 60)],
)
def test_what_it_cannot_have_locked_is_somebody_elses(project, repository, lock, command, path, since):
    """Another kind of file, or a lock that is older than the command."""
    left = lock(path)
    note(project, command, since=since)
    settle(repository)
    assert left.exists()


@pytest.mark.parametrize(
    "forged",
    [
        {"command": "merge", "git_dir": "{outside}", "since": 0},
        {"command": "merge", "git_dir": "{git_dir}/../../outside", "since": 0},
        {"command": "worktree", "git_dir": "{git_dir}", "since": 0},
        {"command": "merge", "git_dir": "\0", "since": 0},
    ],
)
def test_a_note_that_is_not_ours_deletes_nothing_and_stops_nobody(project, repository, heard, forged):
    """Whoever may write into a shared repository must not say what another user's driver deletes."""
    outside = project.root.parent / "outside"
    (outside / "refs").mkdir(parents=True)
    (outside / "index.lock").touch()
    written = note(project, "merge")
    known = {"{outside}": str(outside), "{git_dir}": str(project.root / ".git")}
    for name, path in known.items():
        forged = {**forged, "git_dir": forged["git_dir"].replace(name, path)}
    written.write_text(json.dumps(forged))
    settle(repository)
    assert (outside / "index.lock").exists()
    assert not written.exists()
    assert heard.lines == []


def test_a_pipe_in_place_of_a_note_or_of_a_cut_off_move_stops_nobody(project, repository):
    written = note(project, "merge")
    for path in (written, written.with_name("move.json")):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    settle(repository)
    assert not written.exists()


def test_a_note_that_cannot_be_opened_stops_nobody_and_its_command_may_live(project, repository, lock):
    """Another user's in a shared repository; a link to itself is not opened by root either."""
    left, written = lock("packed-refs.lock"), note(project, "update-ref")
    closed = written.with_name("2-2.json")
    closed.symlink_to(closed)
    settle(repository)
    assert (left.exists(), written.exists(), closed.is_symlink()) == (False, False, True)
    lock(f"{KEPT}.lock")
    with pytest.raises(GitFailed):
        repository.keep(head(project.root), KEPT)


def test_no_two_programs_write_the_same_note_although_containers_repeat_process_ids(project, repository):
    with repository.locks.during("merge", project.root / ".git"):
        [found] = (project.root / ".git/irontree").iterdir()
    assert str(os.getpid()) != found.name.partition("-")[0]
    assert re.fullmatch(r"git-[0-9a-f]{32}\.json", found.name)


def test_a_note_is_seen_only_once_it_is_locked(project, repository):
    """Whoever clears at that moment must not take it for a dead command's."""
    over, notes = threading.Event(), project.root / ".git/irontree"

    def clear():
        while not over.is_set():
            repository.locks.clear()

    def is_taken():
        with repository.locks.during("add", project.root / ".git"):
            there = list(notes.glob("*-*.json"))
            for path in there:
                path.unlink()  # as git's end does
            return not there

    with ThreadPoolExecutor(1) as clearing:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        clearing.submit(clear)
        try:
            taken = [is_taken() for _ in range(400)]
        finally:
            over.set()
            sys.setswitchinterval(usual)
    assert sum(taken) == 0


def test_a_note_that_somebody_removed_makes_no_command_fail(project, repository):
    with repository.locks.during("add", project.root / ".git") as ended_by_itself:
        for path in (project.root / ".git/irontree").iterdir():
            path.unlink()
        ended_by_itself()


def test_a_note_that_a_kill_left_half_written_is_removed_after_some_seconds(project, repository):
    notes = project.root / ".git/irontree"
    notes.mkdir(exist_ok=True)
    young, old = notes / "git-1.tmp", notes / "git-2.tmp"
    young.touch()
    old.touch()
    os.utime(old, (0, 0))
    settle(repository)
    assert (young.exists(), old.exists()) == (True, False)


def test_nothing_is_removed_while_a_command_of_ours_or_any_git_is_at_work(project, repository, lock):
    left, written = lock("packed-refs.lock"), note(project, "update-ref")
    with open(written, opener=open_lock) as living:
        assert take_lock(living.fileno())
        settle(repository)
    assert left.exists()
    with a_git_at_work(project.root):
        settle(repository)
    assert left.exists()
    settle(repository)
    assert not left.exists()


@pytest.mark.parametrize(
    ("reads", "argv"),
    [
        (True, ["git", "log", "-p"]),
        (True, ["/usr/bin/git", "-c", "core.pager=less", "-C", "sub", "--paginate", "diff", "HEAD"]),
        (True, ["git", "--no-pager", "cat-file", "--batch"]),
        (True, ["git-credential-cache--daemon", "socket"]),
        (False, ["git", "commit", "log"]),
        (False, ["git", "-c", "log", "commit"]),
        (False, ["git", "-C", "show", "rebase", "-i"]),
        (False, ["git", "some-alias"]),
        (False, ["git"]),
        (False, []),
    ],
)
def test_a_git_that_only_shows_something_takes_no_lock_that_lasts(reads, argv):
    """Its pager may be open for hours."""
    assert _takes_no_locks(argv) is reads


def test_a_lock_that_a_living_program_has_open_is_its_own(project, repository, lock, heard):
    """Editors have a git of their own, under another name."""
    left, free = lock("index.lock"), lock("HEAD.lock")
    note(project, "merge")
    with left.open("w"):
        settle(repository)
    assert (left.exists(), free.exists()) == (True, False)
    assert [str(free) in line for line in heard.lines] == [True]
    settle(repository)
    assert left.exists(), "its note was another command's"


def test_a_lock_that_is_older_than_our_command_because_the_clock_was_set_back_is_named(project, repository, lock):
    sha, left = project.work(), lock("index.lock")
    os.utime(left, (0, time.time() - 3600))
    note(project, "merge")
    settle(repository)
    assert [str(left) in found.what for found in repository.left_locks()] == [True]
    with pytest.raises(RemoteUnavailable) as failed:
        repository.publish(sha, project.local_target)
    assert "remove the file" in failed.value.remedy


def test_a_linked_worktree_whose_name_is_no_text_stops_nobody(project, repository, lock):
    odd = os.fsencode(project.root.parent) + b"/caf\xe9"
    subprocess.run(["git", "-C", project.root, "worktree", "add", "--quiet", "--detach", odd], check=True)
    left, written = lock("packed-refs.lock"), note(project, "update-ref")
    settle(repository)
    assert (left.exists(), written.exists()) == (False, False)
    os.utime(lock("index.lock"), (0, 0))
    assert len(repository.left_locks()) == 1


@contextmanager
def a_git_at_work(folder):
    """A commit that waits for its editor."""
    program = "import time; print(flush=True); time.sleep(100)"
    command = ["git", "-c", f"core.editor={sys.executable} -c '{program}' #", "commit", "--allow-empty"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.read(1)
        try:
            yield
        finally:
            subprocess.run(["pkill", "-g", str(process.pid)], check=True)


def test_a_ref_that_only_we_write_is_freed_without_any_note(project, repository, lock, heard):
    left = lock(f"{KEPT}.lock")
    repository.keep(head(project.root), KEPT)
    assert repository.read_ref(KEPT) == head(project.root)
    assert [str(left) in line for line in heard.lines] == [True]


def test_a_lock_of_somebody_else_is_named_with_what_to_do(repository, lock):
    left = lock("config.lock")
    with pytest.raises(GitFailed) as failed:
        repository.mark_history()
    assert str(left) in failed.value.remedy
    assert "remove the file" in failed.value.remedy
    left.unlink()
    repository.mark_history()
    assert repository.has_history()


@pytest.mark.parametrize("path", ["config.lock", "refs/heads/side.lock", "worktrees/linked/index.lock"])
def test_a_lock_that_nobody_holds_is_named_once_it_is_a_minute_old(project, repository, lock, path):
    git(project.root, "worktree", "add", "--quiet", "--detach", str(project.root.parent / "linked"))
    left = lock(path)
    assert repository.left_locks() == ()
    os.utime(left, (0, time.time() - 120))
    [found] = repository.left_locks()
    assert found.what == f"{left} is 2 min old"
    assert "remove the file" in found.remedy
    with a_git_at_work(project.root):
        assert repository.left_locks() == ()


def test_a_lock_in_the_way_of_a_fetch_is_no_fault_of_the_remote(project, repository, lock):
    project.push_from_elsewhere()
    left = lock("refs/remotes/origin/main.lock")
    with pytest.raises(RemoteUnavailable) as failed:
        repository.base(project.target)
    assert left.name in failed.value.remedy
    assert "remove the file" in failed.value.remedy


def test_without_a_remote_a_locked_branch_is_no_fault_of_the_checkout(project, repository, lock):
    sha = project.work()
    left = lock("HEAD.lock")
    with pytest.raises(RemoteUnavailable) as failed:
        repository.publish(sha, project.local_target)
    assert str(left) in failed.value.remedy
    assert git(project.root, "status", "--porcelain") == ""


# --- asked again, before anybody is asked


def dying(project, tmp_path, times, state="prepared"):
    """Git dies as often when it is about to move a ref of ours."""
    count = tmp_path / "deaths"
    hook(
        project.root / ".git/hooks",
        "reference-transaction",
        f'[ "$1" = {state} ] && grep -q refs/irontree && [ "$(cat {count} 2>/dev/null | wc -c)" -lt {times} ] '
        f"&& printf x >> {count} && kill -9 $PPID; exit 0",
    )


@pytest.mark.parametrize("state", ["prepared", "committed"])
def test_a_git_that_is_killed_is_asked_again(project, repository, tmp_path, state):
    """Before it had an effect, and behind it."""
    dying(project, tmp_path, 2, state)
    repository.keep(head(project.root), KEPT)
    assert repository.read_ref(KEPT) == head(project.root)
    assert [*(project.root / ".git").rglob("*.lock")] == []


def test_a_git_that_is_killed_again_and_again_is_told_apart_from_one_that_refuses(project, repository, tmp_path):
    dying(project, tmp_path, 100)
    with pytest.raises(GitFailed, match="signal 9 ended") as failed:
        repository.keep(head(project.root), KEPT)
    assert failed.value.killed
    with pytest.raises(GitFailed) as refused:
        repository.keep("0" * 40, KEPT)
    assert not refused.value.killed
