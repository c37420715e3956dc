"""Nothing that an attempt made is lost when it is cut off (R11; B2)."""

from __future__ import annotations

import os

import pytest

from tests.support.repositories import git, head, hook, write

REF = "refs/irontree/salvage/issue-1/2"


@pytest.fixture
def workspace(project):
    made = project.run_workspace()
    made.prepare(head(project.root))
    return made


def salvaged_files(project) -> set[str]:
    return set(project.repository.changed_files(head(project.root), REF))


def test_files_of_commits_edits_and_untracked_files_are_all_kept(project, workspace):
    base = head(project.root)
    write(workspace.path, one="1\n")
    git(workspace.path, "add", ".")
    git(workspace.path, "commit", "--quiet", "--message", "the agent's own")
    write(workspace.path, **{"app.py": "edited\n", "untracked": "2\n", "staged": "3\n"})
    git(workspace.path, "add", "staged")
    kept = workspace.salvage(base, REF)
    assert project.repository.read_ref(REF) == kept
    assert salvaged_files(project) == {"one", "app.py", "untracked", "staged"}
    assert project.parents(kept) == (base,), "files are taken, and no history of the agent's"


def test_commits_without_a_change_of_files_are_nothing_to_keep(project, workspace):
    git(workspace.path, "commit", "--quiet", "--allow-empty", "--message", "an idea")
    assert workspace.salvage(head(project.root), REF) is None


@pytest.mark.parametrize(
    "state",
    [
        "touch .git/index.lock",
        "rm -rf .git",
        "rm -rf .git/refs",
        "rm -rf .git/objects",
        "echo rubbish > .git/HEAD",
        "git checkout --quiet --orphan other",
        "echo rubbish > .git/index",
        "git init --quiet deep; mv half deep; git -C deep add .; git -C deep commit --quiet --message deep",
    ],
)
def test_what_was_cut_off_in_any_state_is_kept(project, workspace, state):
    write(workspace.path, half="half\n")
    os.system(f"cd '{workspace.path}' && ({state}) >/dev/null 2>&1")
    assert workspace.salvage(head(project.root), REF)
    assert salvaged_files(project) <= {"half", "deep/half"}
    assert "half" in git(project.root, "grep", "--name-only", "half", REF)


def test_no_hook_runs_and_none_can_refuse(project, workspace):
    hook(project.root / ".git" / "hooks", "pre-commit", "exit 1")
    write(workspace.path, half="half\n")
    assert workspace.salvage(head(project.root), REF)


def test_salvaging_again_after_a_crash_is_the_same_commit(project, workspace):
    write(workspace.path, half="half\n")
    kept = workspace.salvage(head(project.root), REF)
    assert workspace.salvage(head(project.root), REF) == kept
    assert head(project.root, REF) == kept


def test_more_work_under_the_same_ref_keeps_the_first_in_its_history(project, workspace):
    write(workspace.path, half="half\n")
    first = workspace.salvage(head(project.root), REF)
    write(workspace.path, rest="rest\n")
    second = workspace.salvage(head(project.root), REF)
    assert salvaged_files(project) == {"half", "rest"}
    git(project.root, "merge-base", "--is-ancestor", first, second)


def test_a_workspace_that_was_not_prepared_for_this_base_holds_nothing_of_it(project, workspace):
    """Killed between the event and the reset, the files are still those of another issue."""
    write(workspace.path, other="other issue\n")
    later = project.push_from_elsewhere()
    project.repository.base(project.target)
    assert workspace.salvage(later, REF) is None
    assert project.repository.read_ref(REF) is None


def test_without_a_workspace_there_is_nothing_to_keep(project):
    assert project.run_workspace().salvage(head(project.root), REF) is None


def test_copied_secrets_are_not_kept(project):
    write(project.root, **{"local.cfg": "KEY\n"})
    policy = project.run_workspace().policy.model_copy(update={"copy_files": ("local.cfg",)})
    workspace = project.run_workspace(policy)
    workspace.prepare(head(project.root))
    write(workspace.path, half="half\n")
    workspace.salvage(head(project.root), REF)
    assert salvaged_files(project) == {"half"}


def test_what_was_cut_off_under_an_earlier_version_is_kept_and_its_clone_is_replaced(project):
    """Its workspace was a clone, with a note beside it, and there was no store."""
    base, folder = head(project.root), project.cache / "irontree" / project.repository.id
    folder.mkdir(parents=True)
    git(folder, "clone", "--quiet", "--shared", str(project.root), "run")
    write(folder, **{"run.base": base, "run.gitconfig": "[core]\n"})
    write(folder / "run", **{"half": "half\n", "run.log": "ignored\n"})
    workspace = project.run_workspace()
    assert workspace.salvage(base, REF)
    assert salvaged_files(project) == {"half"}
    workspace.prepare(base)
    assert {path.name for path in folder.iterdir()} == {"run"}
    assert git(workspace.path, "remote") == ""
    assert not (workspace.path / "half").exists()
