"""Setting a repository up: what is chosen, and that a second time changes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.config_file import load_config
from tests.support.repositories import git


def program(folder, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """A PATH with git and the agents put into the folder, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_everything_that_is_found_is_written_with_its_reason(bare_shell, agents, monkeypatch):
    program(agents, "codex")
    monkeypatch.setenv("OPENAI_API_KEY", "never-written")
    (bare_shell.root / "Makefile").write_text("test:\n\ttrue\n")
    done = bare_shell("init", "--json")
    assert done.code == 0
    assert done.data.keys() == {"root", "id", "config", "created", "changes", "settings", "open", "forge"}
    config = load_config(bare_shell.root / ".mino/config.yml")
    assert (config.agent.adapter, config.agent.command) == ("codex", ())
    assert config.agent.environment == ("OPENAI_API_KEY",)
    assert [(check.name, check.run) for check in config.verify.commands] == [("tests", "make test")]
    assert (config.publish.remote, config.publish.target_branch) == ("origin", "main")
    text = (bare_shell.root / ".mino/config.yml").read_text()
    assert "# codex is on PATH" in text
    assert "# Makefile has a target `test`" in text
    assert "never-written" not in text


def test_the_repository_gets_an_id_a_home_labels_and_nothing_that_git_would_commit_but_its_settings(bare_shell):
    assert bare_shell("init").code == 0
    assert len(git(bare_shell.root, "config", "irontree.id")) == 12
    assert git(bare_shell.root, "config", "irontree.home").endswith(f":{bare_shell.root}")
    forge = open_app(bare_shell.root, origin=Origin("x")).forge()
    assert forge.name == "local"
    listed = git(bare_shell.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert listed == ["?? .mino/.gitignore", "?? .mino/config.yml"]


def test_it_says_which_forge_it_chose_and_what_to_set_for_that_of_the_remote(bare_shell, monkeypatch):
    for name in ("GITEA_TOKEN", "FORGEJO_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert "issues go to files under .mino/forge/: no remote is on a forge" in bare_shell("init").out
    git(bare_shell.root, "remote", "set-url", "origin", "https://git.example.org/ada/engine.git")
    said = bare_shell("init").out
    assert "no token was found for ada/engine at https://git.example.org" in said
    assert "set GITEA_TOKEN, if that is Gitea or Forgejo, and forge.adapter: gitea in .mino/config.yml" in said


def test_a_second_time_changes_nothing_and_says_so(bare_shell):
    bare_shell("init")
    path = bare_shell.root / ".mino/config.yml"
    edited = path.read_text() + "run:\n  max_retry_count: 7  # mine\n"
    path.write_text(edited)
    again = bare_shell("init", "--json")
    assert again.code == 0
    assert (again.data["changes"], again.data["settings"], again.data["created"]) == ([], [], False)
    assert path.read_text() == edited
    assert "nothing was changed" in bare_shell("init").out


def test_until_the_settings_are_committed_it_says_how(bare_shell):
    first, again = bare_shell("init"), bare_shell("init")
    commit = f"git -C {bare_shell.root} add .mino/.gitignore .mino/config.yml"
    assert commit in first.out
    assert commit in again.out
    git(bare_shell.root, "add", ".mino")
    git(bare_shell.root, "commit", "--quiet", "--message", "Set up")
    assert commit not in bare_shell("init").out


def config_of(shell) -> str:
    return (shell.root / ".mino" / "config.yml").read_text()


def test_without_an_agent_it_says_what_to_type_and_takes_the_one_that_comes_later(bare_shell, agents):
    first = bare_shell("init")
    assert "No coding agent was found on PATH" in first.out
    assert "such as: claude -p --permission-mode acceptEdits\n  command: ''" in config_of(bare_shell)
    program(agents, "claude")
    second = bare_shell("init", "--json")
    assert second.data["settings"][0]["key"] == "agent.adapter"
    assert not [point for point in second.data["open"] if "agent" in point]


def test_settings_that_were_removed_on_purpose_do_not_come_back(bare_shell):
    bare_shell("init")
    path = bare_shell.root / ".mino/config.yml"
    path.write_text("agent:\n  command: my-agent\n")
    assert bare_shell("init").code == 0
    assert path.read_text() == "agent:\n  command: my-agent\n"


@pytest.mark.parametrize(
    ("test", "folder", "runs"),
    [
        ("import unittest\n", "tests", "python3 -m unittest discover -s tests"),
        ("def test_x():\n    pass\n", "tests", ".venv/bin/python -m pytest"),
        ("import unittest\n", ".", "python3 -m unittest discover"),
    ],
)
def test_python_tests_are_run_with_what_they_are_written_for(bare_shell, test, folder, runs):
    (bare_shell.root / folder).mkdir(exist_ok=True)
    (bare_shell.root / folder / "test_it.py").write_text(test)
    settings = {setting["key"]: setting["value"] for setting in bare_shell("init", "--json").data["settings"]}
    assert settings["verify.commands"] == [{"name": "tests", "run": runs}]


def test_outside_git_it_is_refused_and_nothing_is_written(bare_shell, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    refused = replace(bare_shell, root=folder)("init", "--json")
    assert refused.code == 1
    assert "git init" in json.loads(refused.err)["error"]["remedy"]
    assert list(folder.iterdir()) == []


def test_a_configuration_that_cannot_be_read_is_refused_and_left_alone(bare_shell):
    (bare_shell.root / ".mino").mkdir()
    (bare_shell.root / ".mino/config.yml").write_text("agnet: {}\n")
    refused = bare_shell("init")
    assert refused.code == 1
    assert "did you mean `agent`" in refused.err
    assert (bare_shell.root / ".mino/config.yml").read_text() == "agnet: {}\n"
    assert git(bare_shell.root, "config", "irontree.id", check=False) == ""


def test_a_repository_that_was_moved_is_given_its_new_home(bare_shell, tmp_path):
    bare_shell("init")
    moved = replace(bare_shell, root=bare_shell.root.rename(tmp_path / "moved"))
    assert "home of this repository is" in moved("status").err
    assert "moved the repository's home here" in moved("init").out
    assert moved("status").code == 0


def test_from_a_subfolder_the_repository_is_set_up_at_its_top(bare_shell):
    (bare_shell.root / "docs").mkdir()
    assert replace(bare_shell, root=bare_shell.root / "docs")("init").code == 0
    assert (bare_shell.root / ".mino/config.yml").is_file()
