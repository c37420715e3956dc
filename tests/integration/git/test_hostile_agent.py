"""Whatever an agent does with git in its workspace, the user's repository stays as it is (R4; B4)."""

from __future__ import annotations

import os

import pytest

from irontree.ports import CommitRefused
from irontree.processes.containers import scrubbed_environment
from irontree.processes.family import ProcessLimits
from tests.support.repositories import Project, everything, git, head, hook, write


@pytest.fixture
def busy(project) -> Project:
    """A user in the middle of something: a stash, a hook, an edit, a second branch."""
    write(project.root, **{"app.py": "stashed\n"})
    git(project.root, "stash", "--quiet")
    git(project.root, "branch", "feature")
    write(project.root, **{"app.py": "being edited\n", "notes.txt": "untracked\n"})
    hook(project.root / ".git" / "hooks", "pre-commit", "echo policy says no; exit 1")
    return project


@pytest.mark.parametrize(
    "act",
    [
        "git push",
        "git push origin HEAD:main",
        "git push --all",
        "git push --force --mirror",
        "git stash pop",
        "git stash drop",
        "git update-ref refs/heads/main HEAD",
        "git update-ref -d refs/heads/feature",
        "git branch -D main feature",
        "git branch -f main HEAD",
        "git tag -f release",
        "git config core.hooksPath /dev/null",
        "rm -rf .git/hooks",
        "git reset --hard; git clean -ffdx",
        "git gc --prune=now; git reflog expire --expire=now --all; git prune --expire=now",
        "git worktree add ../third; git worktree prune",
        "git remote add origin .; git fetch origin; git push origin HEAD:refs/heads/main",
        "git maintenance run",
        "git commit --no-verify -am mine",
    ],
)
def test_the_users_repository_and_remote_are_untouched(busy, act):
    workspace = busy.run_workspace()
    workspace.prepare(head(busy.root))
    before, published = everything(busy.root), git(busy.remote, "for-each-ref")
    write(workspace.path, **{"app.py": "by the agent\n"})
    busy.children.run(
        ["sh", "-c", act],
        cwd=workspace.path,
        environment=scrubbed_environment(os.environ),
        limits=ProcessLimits(60),
    )
    assert everything(busy.root) == before
    assert git(busy.remote, "for-each-ref") == published
    assert git(busy.root, "fsck", "--no-dangling", check=False) == ""


@pytest.mark.parametrize(
    "bypass",
    [
        "rm -rf .git/hooks",
        "git config core.hooksPath /dev/null",
        "printf '#!/bin/sh\\n' > .git/hooks/pre-commit",
        "git config include.path /tmp/elsewhere; git config core.hooksPath other",
        "git commit --quiet --no-verify --all --message mine",
        "rm -rf .git",
    ],
)
def test_no_trick_gets_a_commit_past_the_users_hooks(busy, bypass):
    workspace = busy.run_workspace()
    workspace.prepare(head(busy.root))
    write(workspace.path, **{"app.py": "by the agent\n"})
    os.system(f"cd '{workspace.path}' && ({bypass}) >/dev/null 2>&1")
    assert workspace.commit("[run] #1: work", base=head(busy.root)) == CommitRefused("policy says no\n")


@pytest.mark.parametrize("setting", ["gpg.program", "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor"])
def test_no_setting_that_an_agent_plants_runs_a_program_of_its_choice(project, tmp_path, setting):
    workspace, base = project.run_workspace(), head(project.root)
    workspace.prepare(base)
    trap = hook(tmp_path, "trap", f"touch '{tmp_path}/sprung'; exit 1")
    git(workspace.path, "config", setting, str(trap))
    git(workspace.path, "config", "commit.gpgSign", "true")
    git(workspace.path, "config", "log.showSignature", "true")
    git(workspace.path, "config", "filter.trap.clean", str(trap))
    write(workspace.path, work="done\n")
    (workspace.path / ".git" / "info").mkdir(exist_ok=True)
    write(workspace.path / ".git" / "info", attributes="* filter=trap\n")
    made = workspace.commit("[run] #1: work", base=base)
    assert made.files == ("work",)
    assert not (tmp_path / "sprung").exists()
