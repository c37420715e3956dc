"""A fast-forward of the user's checkout that is cut off: finished or undone by content, the user's own left alone (R5).

Git is killed at exact points: by the filter that writes a file, by the hook behind the index, and by the hook around
the branch. What no hook reaches is laid out by hand as git leaves it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest

from irontree.ports import Published
from irontree.repository.git import Git
from irontree.repository.moving import Move
from tests.support.processes import Heard
from tests.support.repositories import Project, commit, git, head, hook, write

POINTS = ("files", "index", "locked", "branch")
"""Killed while it writes files, behind the index, with the branch locked, behind the branch."""


@pytest.fixture
def place(project, tmp_path) -> Place:
    return Place(project, tmp_path, Heard())


class Place:
    """A project with a commit that changes, adds and removes files, and a git that can be told where to die."""

    def __init__(self, project: Project, folder: Path, heard: Heard) -> None:
        self.project, self.root, self.heard = project, project.root, heard
        self._death = folder / "die"
        commit(self.root, "gone.txt", "old\n")
        commit(self.root, "tool.sh", "echo\n")
        commit(self.root, ".gitattributes", "dos.txt text eol=crlf\nzebra.txt filter=dying\n")
        commit(self.root, "zebra.txt", "black\n")
        self.before = commit(self.root, "dos.txt", "one\n")
        git(self.root, "push", "--quiet", "origin", "main")
        workspace = project.run_workspace()
        workspace.prepare(self.before)
        write(
            workspace.path, **{"app.py": "new\n", "new.txt": "n\n", "dos.txt": "one\r\ntwo\r\n", "zebra.txt": "white\n"}
        )
        (workspace.path / "gone.txt").unlink()
        (workspace.path / "deep/er").mkdir(parents=True)
        (workspace.path / "deep/er/file").write_text("deep\n")
        (workspace.path / "tool.sh").chmod(0o755)
        (workspace.path / "link").symlink_to("app.py")
        self.after = workspace.commit("[run] #1: work", base=self.before).sha
        project.repository.keep(self.after, "refs/irontree/issue-1/2", source=workspace)

    @property
    def repository(self):
        found = self.project.repository
        locks = replace(found.locks, note=self.heard.note)
        return replace(found, locks=locks, git=replace(found.git, locks=locks))

    def die(self, point: str, *, with_us: bool = False) -> None:
        """Have git killed there once, and with it the process that publishes."""
        self._death.touch()
        kill = f"[ -e '{self._death}' ] && rm '{self._death}' && kill -9 {'$VICTIM ' if with_us else ''}$PPID"
        hooks = self.root / ".git" / "hooks"
        at_branch = (
            f'[ "$1" = {"prepared" if point == "locked" else "committed"} ] && grep -q refs/heads/main && {kill}'
        )
        match point:
            case "files":
                git(self.root, "config", "filter.dying.smudge", f"{kill}; cat")
            case "index":
                hook(hooks, "post-index-change", f"{kill}; exit 0")
            case _:
                hook(hooks, "reference-transaction", f"{at_branch}; exit 0")

    def publish_and_die(self, point: str) -> None:
        """In a process of its own, which is killed together with git."""
        self.die(point, with_us=True)
        child = os.fork()
        if child == 0:
            try:
                os.environ["VICTIM"] = str(os.getpid())
                self.repository.publish(self.after, self.project.target)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        while self.repository.locks._is_worked_in():  # git dies a moment after its parent
            time.sleep(0.01)
        git(self.root, "config", "--unset", "filter.dying.smudge", check=False)

    def lay_out(self, *paths: str, index: bool = False) -> None:
        """What git leaves: these files as the new commit has them, and the index too if it was written."""
        record = self.root / ".git" / "irontree" / "move.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text(json.dumps(Move(str(self.root), "refs/heads/main", self.before, self.after)._asdict()))
        if index:
            git(self.root, "read-tree", self.after)
        for path in paths:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(git(self.root, "show", f"{self.after}:{path}") + "\n")

    def settle(self) -> None:
        with self.repository.driven():
            pass

    def status(self) -> str:
        return git(self.root, "status", "--porcelain")

    def locks(self) -> list[Path]:
        return [*(self.root / ".git").rglob("*.lock")]

    def assert_moved(self) -> None:
        assert (head(self.root, "main"), self.status(), self.locks()) == (self.after, "", [])
        assert (self.root / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
        assert not (self.root / "gone.txt").exists()
        assert os.access(self.root / "tool.sh", os.X_OK)
        assert (self.root / "link").readlink() == Path("app.py")
        assert [*(self.root / ".git/irontree").iterdir()] == []

    def assert_put_back(self, status: str) -> None:
        assert (head(self.root, "main"), self.status(), self.locks()) == (self.before, status, [])


@pytest.mark.parametrize("point", POINTS)
def test_a_git_that_is_killed_alone_is_followed_up_at_once(place, point):
    place.die(point)
    assert place.repository.publish(place.after, place.project.target) == Published(place.after)
    place.assert_moved()


def test_what_git_wrote_whole_is_recognised_without_a_git_for_each_file(place, tmp_path):
    """A move of thousands of files that is cut off must not keep the next command waiting for minutes."""
    asked, program = tmp_path / "asked", shutil.which("git")
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\necho "$*" >> {asked}\nexec {program} "$@"\n')
    shim.chmod(0o755)
    place.lay_out("app.py", "new.txt", "deep/er/file", index=True)
    with place.project.opened(PATH=f"{shim.parent}:{os.environ['PATH']}").driven():
        pass
    place.assert_moved()
    assert "cat-file --filters" not in asked.read_text()


@pytest.mark.parametrize("point", POINTS)
def test_killed_together_with_git_the_next_driver_finishes_it(place, point):
    place.publish_and_die(point)
    assert bool(place.locks()) == (point in ("files", "locked"))
    place.settle()
    place.assert_moved()
    assert place.repository.publish(place.after, place.project.target) == Published(place.after)
    if point != "branch":
        assert any("was cut off: finished" in line for line in place.heard.lines)


def test_a_record_that_was_half_written_is_removed_once_its_writer_is_dead(place):
    folder = place.root / ".git/irontree"
    folder.mkdir(exist_ok=True)
    for pid in ("4194305", str(os.getpid())):
        (folder / f".move.json.{pid}-1.tmp").touch()
    place.settle()
    assert [path.name for path in folder.iterdir()] == [f".move.json.{os.getpid()}-1.tmp"]


@pytest.mark.parametrize("point", ["files", "index", "locked"])
def test_what_the_user_edits_meanwhile_stays_and_the_rest_is_put_back(place, point):
    place.publish_and_die(point)
    write(place.root, **{"app.py": "mine\n"})
    place.settle()
    place.assert_put_back("M app.py")
    assert (place.root / "app.py").read_text() == "mine\n"
    assert any("app.py" in line and "put back" in line for line in place.heard.lines)
    assert "git pull --ff-only" in place.repository.publish(place.after, place.project.target).warning


def test_nobody_is_told_to_commit_what_only_git_wrote(place):
    """A move that cannot be settled, because another git is at work, is named as what it is."""
    place.lay_out("app.py")
    (place.root / ".git" / "index.lock").touch()
    place.settle()
    found = place.repository.preflight(place.project.target, place.project.run_workspace().policy)
    assert [blocker.check for blocker in found] == ["checkout-half-moved"]
    assert "repair" in found[0].remedy
    (place.root / ".git" / "index.lock").unlink()
    place.settle()
    place.assert_moved()


@pytest.mark.parametrize("index", [False, True], ids=["files", "index"])
@pytest.mark.parametrize(
    ("path", "text"), [("new.txt", "mine\n"), ("app.py", "newer\n"), ("gone.txt", "mine\n"), ("deep", "mine\n")]
)
def test_a_file_of_the_users_in_the_way_is_never_written(place, path, text, index):
    """Untracked, edited, edited where it was to be removed, and where a folder was to be."""
    place.lay_out("zebra.txt", index=index)
    (place.root / path).write_text(text)
    place.settle()
    place.assert_put_back({"app.py": "M app.py", "gone.txt": "M gone.txt"}.get(path, f"?? {path}"))
    assert (place.root / path).read_text() == text


def test_a_folder_of_the_users_where_a_file_was_to_be_keeps_its_files(place):
    place.lay_out("zebra.txt")
    (place.root / "new.txt").mkdir()
    (place.root / "new.txt" / "mine").write_text("mine\n")
    place.settle()
    place.assert_put_back("?? new.txt/")
    assert (place.root / "new.txt/mine").read_text() == "mine\n"


def test_a_file_that_is_half_written_is_gits_own(place):
    place.lay_out("app.py")
    (place.root / "dos.txt").write_bytes(b"one\r\ntw")
    (place.root / "zebra.txt").unlink()
    place.settle()
    place.assert_moved()


def shorten(root: Path) -> None:
    (root / "dos.txt").write_bytes(b"on")


def empty(root: Path) -> None:
    (root / "app.py").write_bytes(b"")


def delete(root: Path) -> None:
    (root / "zebra.txt").unlink()


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        pytest.param(shorten, "M dos.txt", id="shortened"),
        pytest.param(empty, "M app.py", id="emptied"),
        pytest.param(delete, "D zebra.txt", id="deleted"),
    ],
)
@pytest.mark.parametrize("index", [False, True], ids=["not begun", "all written"])
def test_what_the_user_shortens_or_deletes_is_never_written_again(place, edit, status, index):
    """Killed before git had begun, and behind the index: git leaves no file missing or short then."""
    if index:
        place.publish_and_die("locked")
    else:
        place.lay_out()
    edit(place.root)
    place.settle()
    place.assert_put_back(status)
    assert status.split()[1] in place.repository.publish(place.after, place.project.target).warning
    place.assert_put_back(status)


def test_a_file_of_which_the_old_beginning_is_left_is_the_users(place):
    """Git writes new files only; it had begun here."""
    place.lay_out("app.py")
    (place.root / "zebra.txt").write_text("bla")
    place.settle()
    place.assert_put_back("M zebra.txt")


def test_files_that_git_had_only_removed_are_known_by_its_lock_of_the_index(place):
    place.lay_out()
    (place.root / "gone.txt").unlink()
    (place.root / "zebra.txt").unlink()
    (place.root / ".git/index.lock").touch()
    about = {"command": "merge", "git_dir": str(place.root / ".git"), "since": 0}
    (place.root / ".git/irontree/1-1.json").write_text(json.dumps(about))
    place.settle()
    place.assert_moved()


def test_an_undone_move_that_is_cut_off_is_brought_to_an_end(place):
    """Only that leaves the beginning of an old file."""
    place.lay_out()
    record = place.root / ".git/irontree/move.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "is_settling": True}))
    (place.root / "zebra.txt").write_text("bla")
    (place.root / "app.py").write_text("mine\n")
    place.settle()
    place.assert_put_back("M app.py")


def test_what_is_staged_beside_it_stays_staged(place):
    place.lay_out("app.py")
    write(place.root, **{"mine.txt": "mine\n"})
    git(place.root, "add", "mine.txt")
    place.settle()
    assert (head(place.root, "main"), place.status()) == (place.after, "A  mine.txt")


def test_who_has_gone_on_meanwhile_is_left_alone(place):
    place.lay_out("app.py")
    git(place.root, "commit", "--quiet", "--all", "--message", "mine")
    mine = head(place.root)
    place.settle()
    assert (head(place.root), place.status()) == (mine, "")
    assert not (place.root / ".git/irontree/move.json").exists()


@pytest.mark.parametrize("words", [("--create", "feature"), ("--detach",)], ids=["another branch", "detached"])
def test_who_switches_away_from_a_half_moved_checkout_is_told_which_files_git_wrote(place, words):
    place.lay_out("app.py", "new.txt")
    (place.root / "gone.txt").unlink()
    write(place.root, **{"dos.txt": "mine\n", "mine.txt": "mine\n"})
    git(place.root, "switch", "--quiet", *words)
    before = place.status()
    place.settle()
    assert place.status() == before
    [line] = place.heard.lines
    named = {"app.py", "new.txt", "gone.txt", "dos.txt", "mine.txt", "zebra.txt"} & set(re.findall(r"[\w.]+", line))
    assert named == {"app.py", "new.txt", "gone.txt"}


def test_who_has_the_files_in_a_commit_of_theirs_is_told_nothing(place):
    place.lay_out("app.py")
    git(place.root, "switch", "--quiet", "--create", "feature")
    git(place.root, "commit", "--quiet", "--all", "--message", "mine")
    place.settle()
    assert place.heard.lines == []


@pytest.mark.parametrize(
    "forged",
    [
        {"after": "--output={victim}"},
        {"branch": "refs/heads/main\n"},
        {"branch": 1},
        {"worktree": 1},
        {"worktree": "\0"},
        {"before": None},
    ],
)
def test_a_record_that_is_not_ours_moves_nothing_and_is_no_option_of_git(place, tmp_path, forged):
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    move = Move(str(place.root), "refs/heads/main", place.before, place.after)._asdict()
    said = {key: value.format(victim=victim) if isinstance(value, str) else value for key, value in forged.items()}
    record = place.root / ".git/irontree/move.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps({**move, **said}))
    write(place.root, **{"app.py": "new\n"})
    place.settle()
    assert victim.read_text() == "mine\n"
    assert not record.exists()
    place.assert_put_back("M app.py")


def test_what_git_refuses_from_the_start_is_nothing_that_was_cut_off(place):
    """A file that the user deleted is not put back, because another one was in the way."""
    write(place.root, **{"app.py": "mine\n"})
    (place.root / "zebra.txt").unlink()
    assert place.repository.publish(place.after, place.project.target).warning
    place.assert_put_back("M app.py\n D zebra.txt")


def test_a_branch_that_cannot_be_locked_leaves_no_half_of_it(place):
    """Git writes files and index before it finds the branch locked."""
    lock = place.root / ".git/refs/heads/main.lock"
    lock.touch()
    assert "main.lock" in place.repository.publish(place.after, place.project.target).warning
    lock.unlink()
    place.assert_put_back("")


def refuse_to_write(root: Path, name: str) -> None:
    """A filter as that of Git LFS while its server is away."""
    for key, value in {"smudge": "exit 1", "clean": "cat", "required": "true"}.items():
        git(root, "config", f"filter.{name}.{key}", value)


def test_a_filter_that_refuses_to_write_a_file_leaves_no_half_of_it(project):
    before, attributes = head(project.root), "zebra.txt filter=away\n"
    sha = project.work(before, **{"aaa.txt": "n\n", "zebra.txt": "w\n", ".gitattributes": attributes})
    refuse_to_write(project.root, "away")
    assert "smudge" in project.repository.publish(sha, project.target).warning
    assert (head(project.root, "main"), git(project.root, "status", "--porcelain")) == (before, "")


def test_a_file_that_a_filter_keeps_from_being_put_back_is_there_once_it_writes_again(place):
    refuse_to_write(place.root, "dying")
    assert "smudge" in place.repository.publish(place.after, place.project.target).warning
    git(place.root, "config", "filter.dying.smudge", "cat")
    place.settle()
    place.assert_moved()


def test_a_git_that_is_stopped_at_its_limit_of_time_is_followed_up_as_one_that_is_killed(place):
    class Limited(Git):
        def run(self, *words, **given):
            done = super().run(*words, **given)
            return done if done.ok else done._replace(ended="timeout", exit_code=None, output="")

    place.die("files")
    plain = place.repository
    given = {each.name: getattr(plain.git, each.name) for each in fields(plain.git) if each.init}
    repository = replace(plain, git=Limited(**given))
    assert repository.publish(place.after, place.project.target) == Published(place.after)
    place.assert_moved()


def test_a_lock_of_the_users_git_is_waited_for_and_what_is_staged_stays(place):
    """Git refuses before its first change: nothing was cut off."""
    place.lay_out()
    (place.root / ".git/irontree/move.json").unlink()
    lock = place.root / ".git/index.lock"
    lock.touch()
    assert "index.lock" in place.repository.publish(place.after, place.project.target).warning
    lock.unlink()
    place.assert_put_back("")
    assert place.heard.lines == []


@pytest.fixture
def sparse(project) -> Project:
    """A checkout without the folder `out`, and a recorded move that changes a file there and one in `in`."""
    root = project.root
    commit(root, "in/a.txt", "old\n")
    before = commit(root, "out/b.txt", "old\n")
    commit(root, "in/a.txt", "new\n")
    after = commit(root, "out/b.txt", "new\n")
    git(root, "reset", "--quiet", "--hard", before)
    git(root, "sparse-checkout", "set", "--cone", "in")
    record = root / ".git/irontree/move.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps(Move(str(root), "refs/heads/main", before, after)._asdict()))
    return project


def settle_sparse(project: Project) -> tuple[str, str, bool, str]:
    """The text of the last commit, the state, whether a file outside the cone appeared, and how the index marks it."""
    with project.repository.driven():
        pass
    root = project.root
    status, marked = git(root, "status", "--porcelain"), git(root, "ls-files", "-t", "out")
    return git(root, "show", "HEAD:in/a.txt"), status, (root / "out").exists(), marked


def test_what_a_sparse_checkout_leaves_out_is_not_brought_into_it(sparse):
    (sparse.root / "in/a.txt").write_text("new\n")
    assert settle_sparse(sparse) == ("new", "", False, "S out/b.txt")


def test_what_a_sparse_checkout_leaves_out_is_not_missing(sparse):
    """Nothing has begun, so nothing is finished."""
    assert settle_sparse(sparse) == ("old", "", False, "S out/b.txt")


def test_what_a_sparse_checkout_leaves_out_is_put_back_in_the_index_alone(sparse):
    move = json.loads((sparse.root / ".git/irontree/move.json").read_text())
    git(sparse.root, "read-tree", "-m", "-u", "HEAD", move["after"])
    (sparse.root / "in/a.txt").write_text("mine\n")
    assert settle_sparse(sparse) == ("old", "M in/a.txt", False, "S out/b.txt")
