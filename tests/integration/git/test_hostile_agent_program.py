"""An agent program with a shell in its workspace tries; it finds no remote, no credentials and nothing of the user's.

The program is run as in an attempt: by the `command` adapter, in a prepared workspace, with the environment that a
careless caller has. Contract: multi-agent git hygiene; R4.
"""

from __future__ import annotations

import base64
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.agents.program import CommandAgent
from irontree.domain.agents import AgentSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children
from tests.support.repositories import Project, commit, everything, git, head, hook, write

ROOT = Path(__file__).parents[3]
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
CALLER = {
    "GITHUB_TOKEN": TOKEN,
    "GH_TOKEN": TOKEN,
    "GITLAB_TOKEN": TOKEN,
    "GITEA_TOKEN": TOKEN,
    "FORGEJO_TOKEN": TOKEN,
    "GIT_ASKPASS": "/usr/bin/true",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "remote.origin.url",
    "GIT_DIR": "/somewhere/else",
    "PREFECT_API_KEY": TOKEN,
    "SSH_ASKPASS": "/usr/bin/true",
}


@dataclass(frozen=True)
class Attempt:
    """What the program printed, and the workspace that it was in."""

    said: str
    workspace: Path


Tries = Callable[[str], Attempt]


@pytest.fixture
def user(project: Project) -> Project:
    """A user with a stash, a hook, a second branch, a half-done edit, and credentials that git remembers."""
    write(project.root, **{"app.py": "stashed\n"})
    git(project.root, "stash", "--quiet")
    git(project.root, "branch", "feature")
    write(project.root, **{"app.py": "being edited\n"})
    hook(project.root / ".git" / "hooks", "post-checkout", "exit 0")
    git(project.root, "config", "credential.helper", f"!printf 'username=ada\\npassword={TOKEN}\\n'; :")
    git(project.root, "config", "remote.backup.url", str(project.remote))
    git(project.root, "config", "push.default", "matching")
    return project


def home(folder: Path) -> Path:
    """A home in which git has learnt a password."""
    made = folder / "home"
    made.mkdir(exist_ok=True)
    write(
        made,
        **{".gitconfig": "[credential]\n\thelper = store\n", ".git-credentials": f"https://ada:{TOKEN}@github.com\n"},
    )
    return made


@pytest.fixture
def tries(user: Project, tmp_path: Path) -> Tries:
    """Have an agent program carry out shell words in the run workspace."""

    def carry_out(words: str) -> Attempt:
        with socket.socket(socket.AF_UNIX) as agent_socket:
            agent_socket.bind(str(tmp_path / "ssh-agent"))
            own = {"HOME": str(home(tmp_path)), "SSH_AUTH_SOCK": str(tmp_path / "ssh-agent")}
            caller = {**os.environ, **CALLER, **own, "GIT_DIR": str(user.root / ".git")}
            program = tmp_path / "agent.sh"
            program.write_text(f"#!/bin/sh\nexec 2>&1\n{words}\ntrue\n")
            program.chmod(stat.S_IRWXU)
            workspace = user.run_workspace()
            workspace.prepare(head(user.root))
            heard = Heard()
            agent = CommandAgent(AgentSpec(command=(str(program),)), children(), caller)
            task = AgentTask(1, "greeting", 1, "do it", workspace.path, tmp_path / "transcript")
            assert agent.attempt(task, cancel=NEVER, progress=heard).ended == "exited"
            return Attempt("\n".join(heard.lines), workspace.path)

    return carry_out


PUSHES = [
    "git push",
    "git push origin HEAD:main",
    "git push {remote} HEAD:refs/heads/main",
    "git push --force file://{remote} HEAD:refs/heads/stolen",
    "git push {root} HEAD:refs/heads/stolen",
    "git remote add origin {remote} && git push --set-upstream origin HEAD:main",
    "git remote add user {root} && git push --mirror user",
    "git config remote.origin.url {remote}; git config remote.origin.pushurl {remote}; git push origin :feature",
    "git -c push.default=current push {remote} +HEAD:main",
    "git clone --quiet . ../copy && git -C ../copy push",
]


@pytest.mark.parametrize("words", PUSHES)
def test_no_push_from_the_workspace_reaches_the_remote_or_the_user(user, tries, words):
    before, published = everything(user.root), git(user.remote, "for-each-ref")
    words = words.format(remote=user.remote, root=user.root)
    tries(f"echo mine > mine.txt; git add -A; git commit --quiet --no-verify -m mine; {words}")
    assert git(user.remote, "for-each-ref") == published
    assert everything(user.root) == before


LOOKS = {
    "git remote -v": "",
    "git stash list": "",
    "git for-each-ref": "",
    "git branch --all --format='%(refname)' | grep -v detached": "",
    "git config --get-regexp '^remote'": "",
    "git config --get push.default": "",
    "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill 2>/dev/null": "",
    "env | grep -E '^(GIT_|GH_|GITHUB_|GITLAB_|GITEA_|FORGEJO_|SSH_|PREFECT_)'": "",
    'test -S "$SSH_AUTH_SOCK" && echo an ssh agent': "",
}


@pytest.mark.parametrize("words", LOOKS)
def test_there_is_nothing_of_the_user_s_to_be_seen(tries, words):
    assert tries(words).said == LOOKS[words]


def test_the_environment_and_what_git_prints_hold_no_token(tries):
    said = tries("env; git config --list --show-origin; git log -1 --format=%H").said
    assert TOKEN not in said
    assert "PATH=" in said


def test_outside_its_workspace_it_has_the_user_s_rights_and_this_is_written_down(tries):
    """What cannot be prevented is said: docs/explanation/private-workspaces.md."""
    said = tries('base64 -w 0 "$HOME/.git-credentials"').said  # as it is, it would be hidden
    assert TOKEN in base64.b64decode(said).decode()
    text = (ROOT / "docs/explanation/private-workspaces.md").read_text()
    assert "A workspace is no sandbox" in text
    assert "`~/.git-credentials`" in text


def test_the_hooks_it_finds_are_copies(user, tries):
    before = everything(user.root)["hooks"]
    tries("for hook in .git/hooks/*; do echo 'exit 1' > $hook; done; rm -rf .git/hooks")
    assert everything(user.root)["hooks"] == before


def test_what_it_writes_through_its_git_folder_is_its_own(user, tries):
    before = everything(user.root)
    tries("echo ref: refs/heads/x > .git/HEAD; rm -rf .git/refs .git/packed-refs; git update-ref refs/heads/main HEAD")
    assert everything(user.root) == before
    assert git(user.root, "fsck", "--no-dangling", check=False) == ""


def test_the_objects_it_borrows_are_not_the_user_s(user, tries):
    """What they hold is for its convenience: whatever it does to them, the commit does not come from them."""
    borrowed = "$(cat .git/objects/info/alternates)"
    done = tries(f'echo {borrowed}; rm -rf "{borrowed}"; echo mine > mine.txt')
    assert done.said == f"{user.store.parent / 'history.git' / 'objects'}"
    base, workspace = head(user.root), user.run_workspace()
    assert workspace.commit("[run] #1: work", base=base).files == ("mine.txt",)
    assert git(user.root, "fsck", "--no-dangling", check=False) == ""
    workspace.prepare(commit(user.root, "later.txt", "later\n"))
    assert git(workspace.path, "log", "--format=%s") == "a change\nfirst"


def test_what_it_planted_in_its_workspace_is_gone_before_the_next_use(user, tries):
    workspace = tries(
        f"git remote add origin {user.remote}; git config credential.helper store; git config --unset-all "
        "url.no-push-from-a-workspace://.pushInsteadOf; echo 'exit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/*"
    ).workspace
    user.run_workspace().prepare(head(user.root))
    assert git(workspace, "remote") == ""
    assert "no-push-from-a-workspace" in git(workspace, "config", "--list")
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()
