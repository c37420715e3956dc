"""Where a workflow is worked on, and how a run is found again: by the numbers in docs/hotl.md."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.hotl import Called, call, workflow
from tests.support.repositories import commit, git, head

PLAN = "docs/plans/2026-04-22-sample-workflow.md"
PASSES = "loop: false\nverify: echo ok"
KEYS = [
    *("branch", "executor_mode", "repo_root", "execution_root", "workflow_path", "source_workflow_path"),
    *("source_branch", "source_head", "worktree_path"),
]


def write(front: str = "", path: str = PLAN, *steps: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = workflow(*(steps or (PASSES,)), front=f"risk_level: low\nauto_approve: true\n{front}".rstrip())
    Path(path).write_text(text)


def prepared(front: str = "") -> dict[str, str]:
    write(front)
    called = call("prepare", PLAN, "--executor-mode", "loop")
    assert called.code == 0, called
    return called.json


def refused(front: str = "") -> str:
    """What `prepare` says, having changed nothing."""
    write(front)
    before = (
        git(Path(), "for-each-ref"),
        git(Path(), "worktree", "list"),
        git(Path(), "symbolic-ref", "-q", "HEAD", check=False),
    )
    called = call("prepare", PLAN)
    assert (called.code, called.out) == (1, "")
    assert before == (
        *(git(Path(), "for-each-ref"), git(Path(), "worktree", "list")),
        git(Path(), "symbolic-ref", "-q", "HEAD", check=False),
    )
    return called.err


def on_branch(name: str) -> None:
    git(Path(), "switch", "--quiet", "--create", name)


def test_x01_a_worktree_of_its_own_is_the_default(repository: Path):
    found = prepared()
    assert list(found) == KEYS
    root = repository.parent / ".hotl-worktrees" / "repo" / "hotl-sample"
    assert (found["branch"], found["execution_root"], found["worktree_path"]) == ("hotl/sample", str(root), str(root))
    assert found["workflow_path"] == str(root / PLAN)
    assert found["source_workflow_path"] == str(repository / PLAN)
    assert git(root, "branch", "--show-current") == "hotl/sample"
    assert (root / PLAN).read_bytes() == (repository / PLAN).read_bytes()


def test_a_run_that_begins_there_has_what_was_printed(repository: Path, monkeypatch: pytest.MonkeyPatch):
    found = prepared()
    monkeypatch.chdir(found["execution_root"])
    run_id = call("init", PLAN).out.strip()
    state = json.loads(Path(f".hotl/state/{run_id}.json").read_text())
    assert {key: state[key] for key in KEYS} == found
    assert list(state)[-2:] == ["source_branch", "source_head"]
    assert git(Path(), "status", "--porcelain") == "?? docs/"
    said = call("init", PLAN, "--branch", "other", "--source-branch", "elsewhere").out.strip()
    state = json.loads(Path(f".hotl/state/{said}.json").read_text())
    assert (state["branch"], state["source_branch"]) == ("other", "elsewhere"), "what is said counts"
    Path(".hotl/prepared/sample.json").write_text("{")
    assert call("init", PLAN).code == 0, "what cannot be read is left out"


def test_what_is_printed_is_printed_where_it_cannot_be_kept(repository: Path):
    write("worktree: false")
    Path(".hotl").symlink_to(repository.parent)
    called = call("prepare", PLAN)
    assert (called.code, list(called.json)) == (0, KEYS)
    assert called.err.startswith("WARNING: ")
    assert "`hotl-rt init`" in called.err


def test_x02_false_stays_in_the_checkout(repository: Path):
    found = prepared("worktree: false")
    assert (found["execution_root"], found["worktree_path"]) == (str(repository), None)
    assert found["workflow_path"] == str(repository / PLAN)
    assert git(repository, "branch", "--show-current") == "hotl/sample"


def test_x03_host_keeps_the_branch(repository: Path):
    on_branch("feature/host-mode")
    found = prepared("worktree: host")
    assert (found["branch"], found["execution_root"]) == ("feature/host-mode", str(repository))
    assert (found["worktree_path"], found["workflow_path"]) == (None, str(repository / PLAN))
    assert git(repository, "branch", "--show-current") == "feature/host-mode"


def test_x04_a_comment_behind_the_mode_is_none_of_it(repository: Path):
    on_branch("feature/inline-comment")
    found = prepared("worktree: host # use Codex-provided worktree")
    assert (found["branch"], found["execution_root"]) == ("feature/inline-comment", str(repository))


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("branch", ["main", "master"])
def test_x05_host_is_never_a_protected_branch(branch: str):
    git(Path(), "branch", "--move", branch)
    assert f"worktree: host cannot execute directly on protected branch '{branch}'." in refused("worktree: host")


def linked(repository: Path, monkeypatch: pytest.MonkeyPatch, *detached: str) -> Path:
    folder = repository.parent / "linked"
    git(repository, "worktree", "add", "--quiet", "-b", "feature/linked", str(folder))
    monkeypatch.chdir(folder)
    if detached:
        git(folder, "switch", "--quiet", "--detach")
    return folder


def test_x06_an_unpinned_linked_worktree_is_the_host(repository: Path, monkeypatch: pytest.MonkeyPatch):
    folder = linked(repository, monkeypatch)
    found = prepared()
    assert (found["branch"], found["execution_root"]) == ("feature/linked", str(folder))
    assert found["worktree_path"] is None
    assert not (repository.parent / ".hotl-worktrees").exists()


def test_x07_a_detached_linked_worktree_is_not(repository: Path, monkeypatch: pytest.MonkeyPatch):
    folder = linked(repository, monkeypatch, "detached")
    found = prepared()
    assert (found["branch"], found["execution_root"]) == ("hotl/sample", found["worktree_path"])
    assert found["execution_root"] != str(folder)
    assert git(Path(found["execution_root"]), "branch", "--show-current") == "hotl/sample"


@pytest.mark.usefixtures("repository")
def test_x08_host_is_no_other_branch():
    on_branch("feature/host-mode")
    said = refused("branch: feature/other\nworktree: host")
    assert "worktree: host uses the current checkout branch, but branch is 'feature/other'." in said
    assert "Current branch is 'feature/host-mode'." in said


def test_x09_host_needs_a_branch(repository: Path):
    git(repository, "switch", "--quiet", "--detach")
    assert "worktree: host requires the current checkout to be on a named branch." in refused("worktree: host")


@pytest.mark.usefixtures("repository")
def test_x10_there_is_no_other_mode():
    assert refused("worktree: maybe").startswith("ERROR: Invalid worktree mode 'maybe'.\n")


def test_x11_where_it_came_from_is_told(repository: Path):
    found = prepared()
    assert (found["source_branch"], found["source_head"]) == ("main", head(repository))


@pytest.mark.usefixtures("repository")
def test_x12_the_branch_that_is_checked_out_is_not_isolated():
    on_branch("feature/demo")
    said = refused("branch: feature/demo")
    assert "Execution branch 'feature/demo' is already checked out in the current checkout." in said
    assert "'worktree: false'" in said
    assert "'worktree: host'" in said


@pytest.mark.usefixtures("repository")
def test_x13_changes_that_are_not_hotls_stop_it():
    Path("app.txt").write_text("dirty\n")
    said = refused("worktree: true")
    assert said.startswith("ERROR: Non-HOTL dirty files block execution.\napp.txt\n")
    assert all(f"       {choice}. " in said for choice in "abc")
    assert "Nothing is stashed for you" in said


@pytest.mark.usefixtures("repository")
def test_x14_hotls_own_files_do_not_stop_it():
    for path in ("docs/designs/a-design.md", "docs/plans/a-plan.md", "hotl-workflow-other.md", ".hotl/state/a.json"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("mine\n")
    assert prepared()["branch"] == "hotl/sample"


# --- Beyond upstream's cases


@pytest.mark.parametrize("worktree", ["true", "false"])
def test_an_existing_branch_stops_it_at_the_same_commit_too(repository: Path, worktree: str):
    git(repository, "branch", "hotl/sample")
    assert "Branch already exists: hotl/sample." in refused(f"worktree: {worktree}")


def test_an_existing_worktree_folder_stops_it(repository: Path):
    folder = repository.parent / ".hotl-worktrees" / "repo" / "hotl-sample"
    folder.mkdir(parents=True)
    assert f"Worktree path already exists: {folder}\n" in refused()


def test_allowed_changes_do_not_stop_it_whatever_comment_follows(repository: Path):
    commit(repository, "old name.txt", "some text that is long enough to be found again\n")
    git(repository, "mv", "old name.txt", "new name.txt")
    assert "new name.txt" in refused()
    assert "old name.txt" not in refused()
    assert prepared("dirty_worktree: allow # I know")["branch"] == "hotl/sample"


@pytest.mark.usefixtures("repository")
def test_an_unpinned_feature_branch_is_isolated_and_told():
    on_branch("feature/mine")
    write()
    called = call("prepare", PLAN)
    assert called.json["branch"] == "hotl/sample"
    assert "'branch: feature/mine' and 'worktree: false'" in called.err


def test_a_file_with_mistakes_stops_it_before_git_is_changed(repository: Path):
    write("", PLAN, "loop: false\nverify:")
    called = call("prepare", PLAN)
    assert called.code == 1
    assert f"ERROR: {PLAN} has mistakes:\nStep 'Part 1' has empty verify block (line 11)\n" in called.err
    assert git(repository, "branch", "--list", "hotl/*") == ""


def test_a_workflow_outside_the_repository_stops_it(repository: Path):
    write("", str(repository.parent / "hotl-workflow-far.md"))
    called = call("prepare", "../hotl-workflow-far.md")
    assert (
        called.err == f"ERROR: Workflow file must live inside the git repo: {repository.parent}/hotl-workflow-far.md\n"
    )


@pytest.mark.parametrize("with_git", [True, False])
def test_without_a_commit_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_git: bool):
    monkeypatch.chdir(tmp_path)
    if with_git:
        git(tmp_path, "init", "--quiet")
    write()
    called = call("prepare", PLAN)
    assert called.err == "Skipping branch setup (no git history)\n"
    assert (called.json["execution_root"], called.json["worktree_path"]) == (str(tmp_path), None)
    assert (called.json["source_branch"], called.json["source_head"]) == ("main" if with_git else None, None)


def test_a_worktree_that_cannot_be_filled_is_removed_again(repository: Path):
    """A tracked link is where the workflow would go: nothing is written through it."""
    outside = repository.parent / "outside"
    outside.mkdir()
    Path("docs").symlink_to(outside)
    git(repository, "add", "docs")
    git(repository, "commit", "--quiet", "--message", "a link")
    Path("docs").unlink()
    write("dirty_worktree: allow")
    called = call("prepare", PLAN)
    assert called.code == 1
    assert git(repository, "branch", "--list", "hotl/*") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert list(outside.iterdir()) == []


# --- Finding a run again


def interrupted(repository: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """A run of two steps in its own worktree, in the middle of the first; the checkout is the current folder."""
    write("", PLAN, PASSES, PASSES)
    git(repository, "add", "docs")
    git(repository, "commit", "--quiet", "--message", "add workflow")
    found = call("prepare", PLAN).json
    monkeypatch.chdir(found["execution_root"])
    begun = call(
        *("init", found["workflow_path"], "--repo-root", str(repository)),
        *("--execution-root", found["execution_root"], "--source-workflow-path", found["source_workflow_path"]),
        *("--worktree-path", found["worktree_path"], "--branch", found["branch"]),
    )
    run_id = begun.out.strip()
    assert call("step", 1, "start", "--run-id", run_id).code == 0
    monkeypatch.chdir(repository)
    return run_id, found


def located(*words: str) -> list[dict[str, str]]:
    called: Called = call("locate", *words)
    assert called.code == 0, called
    return called.json


def test_l1_a_run_is_found_by_its_workflow(repository: Path, monkeypatch: pytest.MonkeyPatch):
    run_id, prepared_at = interrupted(repository, monkeypatch)
    assert not (repository / ".hotl").exists()
    (found,) = located("--workflow", PLAN)
    assert (found["run_id"], found["run_root"]) == (run_id, prepared_at["execution_root"])
    assert found["execution_root"] == prepared_at["execution_root"]
    assert found["source_workflow_path"] == str(repository / PLAN)
    assert located("--workflow", "docs/plans/other-workflow.md") == []


def test_l2_a_run_is_found_by_its_id(repository: Path, monkeypatch: pytest.MonkeyPatch):
    run_id, prepared_at = interrupted(repository, monkeypatch)
    (found,) = located("--run-id", run_id)
    assert found["state_file"] == f"{prepared_at['execution_root']}/.hotl/state/{run_id}.json"
    assert git(Path(prepared_at["execution_root"]), "status", "--porcelain") == ""
    assert located("--run-id", "other") == []


def test_l3_what_is_completed_is_found_only_with_all(repository: Path, monkeypatch: pytest.MonkeyPatch):
    run_id, prepared_at = interrupted(repository, monkeypatch)
    monkeypatch.chdir(prepared_at["execution_root"])
    for words in (("step", 1, "verify"), ("step", 2, "start"), ("step", 2, "verify"), ("finalize",)):
        assert call(*words).code == 0
    monkeypatch.chdir(repository)
    assert located("--workflow", PLAN) == []
    (found,) = located("--workflow", PLAN, "--all")
    assert (found["run_id"], found["status"]) == (run_id, "completed")


def test_a_run_is_found_without_a_repository_and_a_damaged_one_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write()
    run_id = call("init", PLAN).out.strip()
    shutil.copyfile(f".hotl/state/{run_id}.json", ".hotl/state/copy.json")
    Path(".hotl/state/copy.json").write_text("{")
    assert [run["run_id"] for run in located()] == [run_id]
    assert "copy.json" in call("locate").err
