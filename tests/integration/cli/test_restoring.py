"""`irontree init --from-backup`: what was lost comes back, what is there stays (R13)."""

from __future__ import annotations

import shutil

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from tests.support.repositories import git

LOG = "refs/irontree/log"


@pytest.fixture
def state(shell):
    """The state folder of a repository with three published issues, backed up."""
    assert shell("checkup", "reconcile").code == 0
    return shell.root / ".mino"


def contents(state) -> dict[str, bytes]:
    return {
        path.relative_to(state).as_posix(): path.read_bytes()
        for name in ("plans", "events", "loops", "archive", "forge")
        for path in (state / name).rglob("*.*")
        if path.suffix in (".yml", ".md")
    }


def test_a_deleted_log_comes_back_whole_and_is_sound(shell, state):
    before = contents(state)
    shutil.rmtree(state / "events")
    shutil.rmtree(state / "plans")
    refused = shell("status")
    assert refused.code == 1
    assert "-> restore it from the backup in git: irontree init --from-backup" in refused.err
    done = shell("init", "--from-backup")
    assert (done.code, done.err) == (0, "")
    assert "Restored 4 file(s) from refs/irontree/log" in done.out
    assert "The audit finds the whole log sound." in done.out
    assert "irontree checkup reconcile" in done.out
    assert contents(state) == before
    assert shell("status").code == 0


def test_plain_init_refuses_before_it_writes_anything_where_the_log_was_deleted(shell, state):
    shutil.rmtree(state)
    assert shell("init").code == 1
    assert not state.exists()


def test_all_of_the_state_comes_back_with_the_configuration_that_was_committed(shell, state):
    git(shell.root, "add", "--force", ".mino/config.yml")
    git(shell.root, "commit", "--quiet", "--message", "configuration")
    before, config = contents(state), (state / "config.yml").read_text()
    shutil.rmtree(state)
    done = shell("init", "--from-backup", "--json")
    assert done.code == 0
    assert sorted(done.data["restored"]) == [f".mino/{path}" for path in sorted(before)]
    assert done.data["findings"] == []
    assert contents(state) == before
    assert (state / "config.yml").read_text() == config


def test_a_configuration_that_was_gone_is_said_to_be_back_and_one_that_was_there_to_be_as_it_was(shell, state):
    git(shell.root, "add", "--force", ".mino/config.yml")
    git(shell.root, "commit", "--quiet", "--message", "configuration")
    shutil.rmtree(state)
    back = shell("init", "--from-backup").out
    assert "config.yml was gone: it is back as it was last committed" in back
    assert "config.yml is as it was" not in back
    shutil.rmtree(state / "plans")
    assert "config.yml is as it was" in shell("init", "--from-backup").out


def test_where_no_configuration_was_committed_it_is_said_that_a_new_one_was_written(shell, state):
    shutil.rmtree(state)
    done = shell("init", "--from-backup").out
    assert f"Wrote {state / 'config.yml'}" in done
    assert "is as it was" not in done


@pytest.mark.parametrize("backed_up_since", [False, True])
def test_what_audit_names_lost_comes_back_and_newer_files_stay(shell, state, backed_up_since):
    lost = state / "events" / "issue-1" / "0001-task-published.yml"
    before = lost.read_bytes()
    lost.unlink()
    if backed_up_since:
        shell("checkup", "reconcile")
    newer = state / "events" / "issue-3" / "0001-task-published.yml"
    newer.write_bytes(newer.read_bytes() + b"# mine\n")
    audit = shell("audit")
    assert audit.code == 1
    assert "it was in the log's backup and is gone -> irontree init --from-backup" in audit.out
    done = shell("init", "--from-backup", "--json")
    assert done.data["restored"] == [".mino/events/issue-1/0001-task-published.yml"]
    assert lost.read_bytes() == before
    assert newer.read_bytes().endswith(b"# mine\n")


def test_an_event_that_was_edited_and_backed_up_so_comes_back_as_it_was_written(shell, state):
    edited = state / "events" / "issue-1" / "0001-task-published.yml"
    before = edited.read_bytes()
    edited.write_bytes(before.replace(b"max_retry_count: 1", b"max_retry_count: 9"))
    shell("checkup", "reconcile")
    assert b"max_retry_count: 9" in git(shell.root, "show", f"{LOG}:.mino/events/issue-1/{edited.name}").encode()
    edited.unlink()
    assert shell("init", "--from-backup").code == 0
    assert edited.read_bytes() == before


def test_a_second_time_finds_nothing_lost(shell, state):
    before = git(shell.root, "rev-parse", LOG)
    done = shell("init", "--from-backup")
    assert done.code == 0
    assert "Nothing was lost" in done.out
    assert git(shell.root, "rev-parse", LOG) == before


def test_it_is_fetched_into_a_new_clone_from_where_it_was_pushed(shell, state, tmp_path, monkeypatch):
    git(shell.root, "push", "--quiet", "origin", "refs/irontree/*")
    before = contents(state)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(shell.remote), str(clone))
    there = type(shell)(clone, shell.remote, shell.capsys)
    assert "has no refs/irontree/log to restore from" in there("init", "--from-backup").err
    assert not (clone / ".mino").exists()
    assert there("init", "--from-backup", "origin").code == 0
    assert contents(clone / ".mino") == before


def test_a_remote_that_cannot_be_reached_is_an_error_for_people(shell, state):
    refused = shell("init", "--from-backup", "nowhere")
    assert refused.code == 1
    assert "cannot fetch refs/irontree/log from nowhere" in refused.err


def test_nobody_restores_while_somebody_is_at_work(shell, state):
    with open_app(shell.root, origin=Origin("x")).driver.hold("issue-1, run"):
        assert "busy: issue-1, run" in shell("init", "--from-backup").err


def test_issues_of_the_local_forge_come_back_with_the_log_and_no_number_is_given_twice(shell, state):
    issues = {path.name: path.read_bytes() for path in (state / "forge" / "issues").glob("*.md")}
    git(shell.root, "add", "--force", ".mino/config.yml")
    git(shell.root, "commit", "--quiet", "--message", "configuration")
    shutil.rmtree(state)
    assert shell("init", "--from-backup").code == 0
    assert {path.name: path.read_bytes() for path in (state / "forge" / "issues").glob("*.md")} == issues
    assert shell("checkup", "reconcile").code == 0
    (shell.root / "MORE.md").write_text("# More\n\n## Third text\n\n- [ ] It is there (check: tests)\n")
    revision = shell("task", "MORE.md", "--plan", "--json").data["name"]
    published = shell("task", "MORE.md", "--stepwise", "--approve", revision)
    assert (published.code, "#4  created" in published.out) == (0, True), published.err


def test_an_issue_that_a_person_deleted_is_not_lost(shell, state):
    (state / "forge" / "issues" / "0002.md").unlink()
    assert shell("audit").code == 0
    assert shell("init", "--from-backup").code == 0
    assert not (state / "forge" / "issues" / "0002.md").exists()
