"""The log's backup in git: complete, cheap, and nobody else's business (R13)."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from irontree.domain.timestamps import utc_text
from irontree.errors import GitFailed
from irontree.repository.backup import fetch, remove_unreadable, versions
from tests.support.repositories import everything, git, head, hook

LOG = "refs/irontree/log"


@pytest.fixture
def state(project):
    for path in (
        "plans/aaaaaaaa.yml",
        "events/issue-1/0001-task-published.yml",
        "archive/issue-1-rev-aaaaaaaa/brief.md",
    ):
        put(project, path)
    return project.root / ".mino"


def put(project, path: str, text: str = "x: 1\n") -> None:
    target = project.root / ".mino" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def backed_up(project) -> set[str]:
    return set(git(project.root, "ls-tree", "-r", "--name-only", LOG).splitlines())


def test_it_holds_the_log_and_nothing_else(project, state):
    others = (
        "config.yml",
        "run.lock",
        "loops/active.lock",
        "reports/issue-1/report.md",
        "events/issue-1/.0002.tmp",
    )
    for path in others:
        put(project, path)
    put(project, "agent-requests/mention-C3-tester.yml")
    project.repository.back_up()
    assert backed_up(project) == {
        ".mino/agent-requests/mention-C3-tester.yml",
        ".mino/plans/aaaaaaaa.yml",
        ".mino/events/issue-1/0001-task-published.yml",
        ".mino/archive/issue-1-rev-aaaaaaaa/brief.md",
    }


def test_each_change_is_a_commit_on_the_one_before(project, state):
    project.repository.back_up()
    first = head(project.root, LOG)
    put(project, "events/issue-1/0002-run-started.yml")
    project.repository.back_up()
    assert git(project.root, "rev-list", LOG).split() == [head(project.root, LOG), first]


def test_where_nothing_changed_git_is_asked_one_question(project, state, tmp_path):
    asked = tmp_path / "asked"
    hook(tmp_path / "bin", "git", f'echo "$*" >> {asked}; exec {shutil.which("git")} "$@"')
    repository = project.opened(PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    repository.back_up()
    asked.write_text("")
    repository.back_up()
    assert [line.partition(" log ")[2] for line in asked.read_text().splitlines()] == [f"-1 --format=%H %T {LOG} --"]


def test_a_file_that_was_written_in_place_is_noticed(project, state):
    project.repository.back_up()
    put(project, "plans/aaaaaaaa.yml", "x: 2\n")
    project.repository.back_up()
    assert git(project.root, "show", f"{LOG}:.mino/plans/aaaaaaaa.yml") == "x: 2"


@pytest.mark.parametrize("harm", [["-d", LOG], [LOG, "HEAD"]], ids=["gone", "elsewhere"])
def test_a_ref_that_somebody_moved_is_moved_again_although_nothing_changed(project, state, harm):
    project.repository.back_up()
    git(project.root, "update-ref", *harm)
    project.repository.back_up()
    assert ".mino/plans/aaaaaaaa.yml" in backed_up(project)


def test_what_was_deleted_shows_and_is_still_in_the_history(project, state):
    put(project, "loops/one.yml")
    project.repository.back_up()
    (state / "loops" / "one.yml").unlink()
    (state / "loops").rmdir()
    (state / "events" / "issue-1" / "0001-task-published.yml").unlink()
    project.repository.back_up()
    assert git(project.root, "diff", "--name-status", f"{LOG}~", LOG).split() == [
        *("D", ".mino/events/issue-1/0001-task-published.yml"),
        *("D", ".mino/loops/one.yml"),
    ]


def test_the_users_index_branches_and_files_are_untouched(project, state):
    before = everything(project.root)
    index = (project.root / ".git" / "index").read_bytes()
    project.repository.back_up()
    after = everything(project.root)
    assert after["refs"] != before.pop("refs")
    assert {key: after[key] for key in before} == before
    assert (project.root / ".git" / "index").read_bytes() == index


def test_it_is_written_byte_by_byte_whatever_line_ends_the_user_likes(project, state):
    git(project.root, "config", "core.autocrlf", "true")
    git(project.root, "config", "core.safecrlf", "true")
    put(project, "events/issue-2/0001-task-published.yml", "a: 1\r\nb: 2\n")
    project.repository.back_up()
    assert git(project.root, "cat-file", "-s", f"{LOG}:.mino/events/issue-2/0001-task-published.yml") == "11"


def test_it_does_not_depend_on_who_commits(project, state, tmp_path):
    (tmp_path / "nobody").write_text("")
    project.opened(GIT_CONFIG_GLOBAL=str(tmp_path / "nobody")).back_up()
    assert git(project.root, "log", "-1", "--format=%an", LOG) == "irontree"


def test_a_sparse_checkout_leaves_nothing_out_of_it(project, state):
    git(project.root, "sparse-checkout", "set", "docs")
    project.repository.back_up()
    put(project, "events/issue-1/0002-run-started.yml")
    project.repository.back_up()
    assert project.repository.backup_failure() is None
    assert ".mino/events/issue-1/0002-run-started.yml" in backed_up(project)


def test_a_pipe_in_place_of_the_index_is_waited_for_by_nobody(project, state):
    project.repository.back_up()
    index = project.cache / "irontree" / project.repository.id / "log.index"
    index.unlink()
    os.mkfifo(index)
    project.repository.back_up()
    assert index.is_file()


@pytest.mark.parametrize("harm", ["log.index.lock", "log.index"], ids=["killed while writing", "damaged index"])
def test_traces_of_a_crash_do_not_stop_it(project, state, harm):
    project.repository.back_up()
    folder = project.cache / "irontree" / project.repository.id
    (folder / harm).write_text("rubbish")
    put(project, "events/issue-1/0002-run-started.yml")
    project.repository.back_up()
    assert ".mino/events/issue-1/0002-run-started.yml" in backed_up(project)


def test_two_at_the_same_time_lose_nothing(project, state):
    def one(number: int) -> None:
        put(project, f"events/issue-{number}/0001-task-published.yml")
        project.repository.back_up()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f".mino/events/issue-{n}/0001-task-published.yml" for n in range(2, 6)} <= backed_up(project)


def test_what_was_ever_held_and_is_gone_is_named_even_after_further_backups(project, state):
    put(project, "loops/one.yml")
    put(project, "loops/active.lock")
    put(project, "events/issue-1/0002-run-started.yml")
    assert project.repository.lost_files() == ()
    project.repository.back_up()
    (state / "loops" / "one.yml").unlink()
    (state / "loops" / "active.lock").unlink()
    (state / "events" / "issue-1" / "0002-run-started.yml").unlink()
    project.repository.back_up()
    assert project.repository.lost_files() == (".mino/events/issue-1/0002-run-started.yml", ".mino/loops/one.yml")


def test_a_stream_that_was_archived_is_not_lost(project, state):
    project.repository.back_up()
    (state / "archive" / "issue-1-rev-aaaaaaaa").mkdir(exist_ok=True)
    (state / "events" / "issue-1").rename(state / "archive" / "issue-1-rev-aaaaaaaa" / "events")
    put(project, "events/issue-1/0001-task-re-adopted.yml")
    project.repository.back_up()
    assert project.repository.lost_files() == ()


def test_a_content_that_is_gone_from_it_is_named_and_not_taken_for_an_empty_file(project, state):
    project.repository.back_up()
    path = ".mino/plans/aaaaaaaa.yml"
    blob = git(project.root, "rev-parse", f"{LOG}:{path}").strip()
    (project.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitFailed, match=blob):
        versions(project.repository.git, [path])


def test_a_backup_that_fails_stops_nothing_and_is_remembered_from_the_first_time_on(project, state):
    project.repository.back_up()
    refusing = hook(project.root / ".git/hooks", "reference-transaction", "grep -q irontree/log && exit 1; exit 0")
    put(project, "events/issue-1/0002-run-started.yml")
    project.repository.back_up()
    first = project.repository.backup_failure()
    assert "git update-ref failed" in first.reason
    remembered = (state / ".backup-failed").read_text().replace(utc_text(first.since), "2026-01-02T03:04:05Z")
    (state / ".backup-failed").write_text(remembered)
    project.repository.back_up()
    assert utc_text(project.repository.backup_failure().since) == "2026-01-02T03:04:05Z"
    refusing.unlink()
    project.repository.back_up()
    assert project.repository.backup_failure() is None
    assert ".mino/events/issue-1/0002-run-started.yml" in backed_up(project)


def test_a_lock_that_a_killed_backup_left_is_in_nobodys_way(project, state):
    (project.root / ".git/refs/irontree").mkdir(parents=True)
    (project.root / ".git/refs/irontree/log.lock").touch()
    project.repository.back_up()
    assert project.repository.backup_failure() is None
    assert backed_up(project)


ISSUES = ("forge/issues/0001.md", "forge/issues/0001/comments/0001.md", "forge/issues/0002.md")


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        (ISSUES, ISSUES),
        (ISSUES[2:], ()),
        (ISSUES[1:2], ()),
    ],
    ids=["all issues", "an issue", "a comment"],
)
def test_issues_are_lost_once_none_is_left_whatever_else_of_the_forge_is_there(project, state, gone, lost):
    for path in (*ISSUES, "forge/labels.yml"):
        put(project, path)
    project.repository.back_up()
    for path in gone:
        (state / path).unlink()
    assert project.repository.lost_files() == tuple(f".mino/{path}" for path in lost)


def breaks(project, how: str) -> None:
    """Make our ref one that cannot be read: what a power cut leaves, or a `git gc` between commit and ref."""
    ref = project.root / ".git" / LOG
    if how == "its commit is missing":
        sha = ref.read_text().strip()
        (project.root / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    else:
        ref.write_bytes({"empty": b"", "garbage": b"\xff\0" * 20, "zeros": b"0" * 40 + b"\n"}[how])


BROKEN = ("its commit is missing", "empty", "garbage", "zeros")


@pytest.mark.parametrize("how", BROKEN)
def test_a_ref_that_cannot_be_read_is_named_and_made_anew_from_the_files(project, state, how):
    project.repository.back_up()
    breaks(project, how)
    repository = project.opened()
    assert repository.backup_damage()
    tip = head(project.root, "main")
    assert repository.unreferenced((tip,)) == frozenset()
    repository.back_up()
    assert (repository.backup_damage(), repository.backup_failure()) == ("", None)
    assert ".mino/events/issue-1/0001-task-published.yml" in backed_up(project)
    git(project.root, "fetch", "origin")
    git(project.root, "gc", "--quiet")


def test_a_driver_mends_it_before_anything_is_fetched(project, state):
    project.repository.back_up()
    breaks(project, "empty")
    with project.opened().driven():
        git(project.root, "fetch", "origin")


def test_an_older_value_that_git_has_packed_is_gone_on_from(project, state):
    project.repository.back_up()
    first = head(project.root, LOG)
    git(project.root, "pack-refs", "--all")
    put(project, "events/issue-1/0002-run-started.yml")
    project.repository.back_up()
    breaks(project, "its commit is missing")
    project.repository.back_up()
    assert git(project.root, "rev-list", LOG).split() == [head(project.root, LOG), first]


@pytest.mark.parametrize("how", BROKEN[:2])
def test_without_files_to_make_it_from_it_stays_until_it_is_fetched(project, state, how, tmp_path):
    project.repository.back_up()
    git(project.root, "push", "origin", f"{LOG}:{LOG}")
    breaks(project, how)
    (project.root / ".mino").rename(tmp_path / "gone")
    repository = project.opened()
    repository.back_up()
    assert repository.backup_damage()
    fetch(repository.git, "origin")
    assert repository.backup_damage() == ""
    assert ".mino/events/issue-1/0001-task-published.yml" in backed_up(project)


def test_a_ref_that_can_be_read_is_never_made_anew(project, state):
    project.repository.back_up()
    first = head(project.root, LOG)
    remove_unreadable(project.repository.git)
    assert head(project.root, LOG) == first
